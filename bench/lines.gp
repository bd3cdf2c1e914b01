# gnuplot -e "csv='soak-runs.csv'; svg='soak.svg'; title='...'; x='requests'; a='gateway'; b='backend'" lines.gp
# Memory in MiB: columns a and b over column x.

set terminal svg size 900,420 font "sans-serif,13" background rgb "white"
set output svg
set datafile separator comma
set key outside right top
set grid lc rgb "#dddddd"
set yrange [0:*]
set title title font ",15"
set xlabel x
set ylabel "MiB"
plot csv using (column(x)):(column(a)) with linespoints pt 7 ps 0.5 lc rgb "#4477aa" title a noenhanced, \
     csv using (column(x)):(column(b)) with linespoints pt 7 ps 0.5 lc rgb "#cc6677" title b noenhanced
