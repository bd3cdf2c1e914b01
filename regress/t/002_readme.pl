# 002_readme.pl
#   The README's chapter on credits, statement by statement: each does what stands
#   there.  Of a statement that shows an answer the answer must be that one, ids and
#   times apart; of any other, that it is no error.
#
#   A statement begins at a prompt and ends with a line that ends it; what follows up
#   to the next prompt or an empty line is its answer.  Like ids must be like in both:
#   the n-th id that the chapter shows is the n-th one that the run shows.  Widths of
#   columns, "(n rows)" and, where no line of dashes is shown, the header are left out.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use PostgreSQL::Test::Utils;
use Test::More;

my $chapter = 'Credits for your product';
my $top = "$FindBin::Bin/../..";

# statements(): those of the chapter's blocks, as { sql, shown, line }
sub statements {
  my (@found, $inside, $block, $open);
  open(my $file, '<', "$top/README.md") or die "README.md: $!";
  while (my $line = <$file>) {
    chomp $line;
    if ($line =~ /^## /) { $inside = $line eq "## $chapter"; }
    next unless $inside;
    if ($line =~ /^```/) { $block = !$block; $open = 0; next; }
    next unless $block;
    if ($line =~ s/^=> //) {
      push @found, { sql => '', shown => '', line => $. };
      $open = 1;
    }
    if ($open) {
      $found[-1]{sql} .= "$line\n";
      $open = 0 if $line =~ /(?:;|\\gset)\s*(?:--.*)?$/;
      $found[-1]{done} = 1 unless $open;
    }
    elsif ($line ne '') {
      die "README.md:$.: an answer to nothing" unless @found && $found[-1]{done};
      $found[-1]{shown} .= "$line\n";
    }
  }
  die "README.md: a statement without end" if grep { !$_->{done} } @found;
  return @found;
}

# answers(NODE, STATEMENT...): what psql says to each, all in one session.  The marks
# between them go the way of errors, so that the order is kept.
sub answers {
  my ($node, @statements) = @_;
  my $script = join('', map { "\\warn ==\n$_->{sql}" } @statements);
  my $said = '';
  local $ENV{TZ} = 'UTC';
  IPC::Run::run([ 'psql', '-Xq', '-d', $node->connstr($Mortar::database), '-U', 'mortar_demo_admin' ],
    '<', \$script, '>&', \$said);
  my (undef, @answers) = split(/^==\n/m, $said, -1);
  is(@answers, @statements, 'psql answers to each statement');
  return @answers;
}

# plain(TEXT, IDS, WHOLE): what is to be compared of an answer; WHOLE says whether
# that has a header
sub plain {
  my ($text, $ids, $whole) = @_;
  $text =~ s/\A[^\n]*\n-[-+]*\n// unless $whole;
  $text =~ s/^\(\d+ rows?\)\n//m;
  $text =~ s/\b([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b/$ids->{$1} \/\/= 'id' . (1 + keys %$ids)/ge;
  $text =~ s/\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d)/a time/g;
  $text =~ s/--+/--/g;
  $text =~ s/ +/ /g;
  $text =~ s/ $//mg;
  $text =~ s/^\n//mg;
  return $text;
}

my $node = Mortar::node('main');
$node->command_ok([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $Mortar::database, '-f', "$top/regress/demo.sql" ],
  'the demo tenant is made');

my @statements = statements();
cmp_ok(scalar @statements, '>', 20, 'the chapter has statements');
my @answers = answers($node, @statements);
my (%shown_ids, %ids);
for my $statement (@statements) {
  my $answer = shift @answers;
  my $name = "README.md:$statement->{line}: " . $statement->{sql} =~ s/\n.*//sr;
  if ($statement->{shown} eq '') {
    unlike($answer, qr/^(?:ERROR|FATAL|WARNING|invalid|\\\w+:|psql:)/m, $name) or diag($answer);
    next;
  }
  my $whole = $statement->{shown} =~ /^-[-+]*$/m;
  is(plain($answer, \%ids, $whole), plain($statement->{shown}, \%shown_ids, $whole), $name) or diag($answer);
}

is(Mortar::admin($node, 'SELECT count(*) FROM mortar.verify_ledger() WHERE NOT ok'), 0, 'and the books agree');

# the tour before it shows some of the checks
my %checks = map { $_ => 1 } split(/\n/, Mortar::admin($node, 'SELECT check_name FROM mortar.verify_ledger()'));
my @shown = slurp_file("$top/README.md") =~ /^ (\S.*?) +\| t +\| ok/mg;
cmp_ok(scalar @shown, '>', 5, 'the README shows checks of the ledger');
is_deeply([ grep { !$checks{$_} } @shown ], [], '... that there are');
done_testing();
