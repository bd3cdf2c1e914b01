# gnuplot -e "csv='list.csv'; svg='list.svg'; title='...'" plot.gp
# Medians as boxes, quartiles as error bars.

set terminal svg size 900,420 font "sans-serif,13" background rgb "white"
set output svg
set datafile separator comma
set key off
set style fill solid 0.55 border -1
set boxwidth 0.6
set grid ytics lc rgb "#dddddd"
set xtics rotate by -20 scale 0
set yrange [0:*]
set offsets 0.6, 0.6, 0, 0

# the file's other lines are the ratios
targets = "< grep -v ^ratio " . csv

set multiplot layout 1,2 title title font ",15"
set title "requests per second"
plot targets using 0:(column("req_per_s")):xtic(strcol("name")) with boxes lc rgb "#4477aa", \
     targets using 0:(column("req_per_s")):(column("req_per_s_q1")):(column("req_per_s_q3")) with yerrorbars lc rgb "black" pt 0
set title "server CPU per request, microseconds"
plot targets using 0:(column("server_cpu_us")):xtic(strcol("name")) with boxes lc rgb "#cc6677", \
     targets using 0:(column("server_cpu_us")):(column("server_cpu_us_q1")):(column("server_cpu_us_q3")) with yerrorbars lc rgb "black" pt 0
unset multiplot
