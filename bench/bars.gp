# gnuplot -e "csv='gate.csv'; svg='gate.svg'; title='...'; unit='...'" bars.gp
# One box per row with columns value, value_q1 and value_q3.

set terminal svg size 900,420 font "sans-serif,13" background rgb "white"
set output svg
set datafile separator comma
set key off
set style fill solid 0.55 border -1
set boxwidth 0.6
set grid ytics lc rgb "#dddddd"
set xtics rotate by -15 scale 0
set yrange [0:*]
set offsets 0.6, 0.6, 0, 0
set title title font ",15"
set ylabel unit
plot csv using 0:(column("value")):xtic(strcol("name")) with boxes lc rgb "#4477aa", \
     csv using 0:(column("value")):(column("value_q1")):(column("value_q3")) with yerrorbars lc rgb "black" pt 0
