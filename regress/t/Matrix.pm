# Matrix.pm
#   A table of what a test has found, printed among its notes, one line a case:
#
#     my $matrix = Matrix->new('case', 'acknowledged', 'lost');
#     $matrix->row('immediate stop', 812, 3);
#     $matrix->print;
#
#   `make crash-matrix` and `make dump-matrix` show nothing but these lines.  They
#   also set MATRIX=long, and the tests then do more than they do in `make test`.

package Matrix;

use strict;
use warnings;
use Test::More;

sub long { return ($ENV{MATRIX} // '') eq 'long'; }

sub new {
  my ($class, @titles) = @_;
  return bless { rows => [ \@titles ] }, $class;
}

sub row {
  my ($self, @cells) = @_;
  die 'a row of ' . @cells . ' cells' if @cells != @{ $self->{rows}[0] };
  push @{ $self->{rows} }, \@cells;
  return;
}

# print(): texts to the left, numbers to the right
sub print {
  my ($self) = @_;
  my @rows = @{ $self->{rows} };
  my @columns = 0 .. $#{ $rows[0] };
  my @width = map { my $c = $_; (sort { $b <=> $a } map { length $_->[$c] } @rows)[0] } @columns;
  my @number = map { my $c = $_; !grep { $_->[$c] !~ /^[\d-]+$/ } @rows[ 1 .. $#rows ] } @columns;
  my $line = join('|', '', map { '-' x ($width[$_] + 2) } @columns) . '|';
  for my $row (@rows) {
    note join(' | ', '', map { sprintf($number[$_] ? '%*s' : '%-*s', $width[$_], $row->[$_]) } @columns) =~ s/^ //r . ' |';
    note $line if $row == $rows[0];
  }
  return;
}

1;
