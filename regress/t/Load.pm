# Load.pm
#   Clients that write down what they were told was done, for tests that end a
#   server under them and compare.
#
#     my $load = Load->start($node, $gateway, key => $key, tag => 'r1');
#     $load->wait(50);                  # each kind has 50 answers
#     ...                               # the server ends
#     $load->end;                       # every client has lost it
#     $load->{answers}{charge};         # the ids of entries that were acknowledged
#
#   One client of each kind: SQL sessions that charge, grant and record usage, and
#   an HTTP client that inserts a row with each request.  A client has one call in
#   flight and stops at the first that is not answered well.  With calls => N it
#   also stops, well, after N of them.  (An HTTP client may not notice that a server
#   has ended and come back: the gateway lets its call wait.)
#
#   charge and grant answer with the entry's or the grant's id, row with the row's;
#   usage with nothing, and each of its calls is one unit, as each row's request is.
#   In answers there is [ID, time in seconds at which the call was sent or later,
#   but before its commit].

package Load;

use strict;
use warnings;
use Mortar;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @kinds = qw(charge grant usage row);
my $enough = 20_000;    # more calls than any test waits for

my %call = (
  charge => "mortar.charge('acme', 1, '%s')",
  grant => "mortar.grant_credits('acme', 1, '%s')",
  usage => "mortar.record_usage('acme', 'requests', 1)");

my @running;

# start(NODE, GATEWAY, key => KEY, tag => TEXT, calls => N): keys of calls begin
#   with the tag
sub start {
  my ($class, $node, $gateway, %with) = @_;
  my $calls = $with{calls} // $enough;
  my $self = bless { calls => $with{calls}, pid => {}, file => {}, answers => {} }, $class;
  push @running, $self;
  for my $kind (@kinds) {
    my $base = $node->basedir . "/$with{tag}-$kind";
    $self->{file}{$kind} = "$base.answers";
    Mortar::write_file("$base.answers", '');
    Mortar::write_file("$base.sql", join('', map {
      'SELECT extract(epoch FROM clock_timestamp()), ' . sprintf($call{$kind}, "$with{tag}-$kind-$_") . ";\n"
    } 1 .. $calls)) if $kind ne 'row';
    my $pid = fork();
    die "fork: $!" unless defined $pid;
    if ($pid == 0) {
      eval { $kind eq 'row' ? rows($base, $gateway, $with{key}, $with{tag}, $calls) : sql($base, $node); };
      POSIX::_exit($@ ? 1 : 0);    # without perl's END blocks, which end the gateway
    }
    $self->{pid}{$kind} = $pid;
  }
  return $self;
}

sub sql {
  my ($base, $node) = @_;
  open(STDOUT, '>', "$base.answers") or die;
  open(STDERR, '>', "$base.errors") or die;
  exec('psql', '-XAtq', '-F', ' ', '-v', 'ON_ERROR_STOP=1', '-U', 'mortar_test_admin', '-f', "$base.sql",
    '-d', $node->connstr($Mortar::database)) or die;
}

sub rows {
  my ($base, $gateway, $key, $tag, $calls) = @_;
  open(my $answers, '>', "$base.answers") or die;
  $answers->autoflush(1);
  my $stopped = 0;
  local $SIG{TERM} = sub { $stopped = 1; };
  for my $n (1 .. $calls) {
    last if $stopped;
    my $sent = time;
    my $answer = $gateway->request('POST', '/v1/acme/db/rows/notes', key => $key, json => { tag => $tag, n => $n });
    die "status $answer->{status}" unless $answer->{status} == 201 && $answer->{headers}{location} =~ m{/([^/]+)$};
    printf {$answers} "%.6f %s\n", $sent, $1;
  }
  return;
}

# answered(KIND): so far, [ID, time] each; a last line may still be on its way
sub answered {
  my ($self, $kind) = @_;
  return [ map { [ $_->[1] // '', $_->[0] ] } map { [ split / / ] }
      slurp_file($self->{file}{$kind}) =~ /^(.+)\n/mg ];
}

# wait(N): until each kind has N answers
sub wait {
  my ($self, $count) = @_;
  for (1 .. $PostgreSQL::Test::Utils::timeout_default * 20) {
    return if !grep { @{ $self->answered($_) } < $count } @kinds;
    usleep(50_000);
  }
  die "no $count answers of each kind: " . join(' ', map { "$_ " . @{ $self->answered($_) } } @kinds);
}

# end(): waits for all clients; false when one ended otherwise than it should: after
#   its calls, or, if there was no end to these, because the server was gone
sub end {
  my ($self) = @_;
  my $well = 1;
  kill('TERM', $self->{pid}{row}) unless $self->{calls};
  for my $kind (@kinds) {
    waitpid(delete $self->{pid}{$kind}, 0);
    my $code = $? >> 8;
    my $right = !($? & 127) && ($self->{calls} ? $code == 0
      : $kind eq 'row' ? $code < 2 && @{ $self->answered($kind) } < $enough
      : $code == 2);    # psql has lost its connection
    diag("the client of kind $kind ended with wait status $?") unless $right;
    $well &&= $right;
    $self->{answers}{$kind} = $self->answered($kind);
  }
  return $well;
}

sub ids { my ($self, $kind) = @_; return map { $_->[0] } @{ $self->{answers}{$kind} }; }

# sent_between(FROM, TO): how many units of usage were answered whose call began then
sub sent_between {
  my ($self, $from, $to) = @_;
  return scalar grep { $_->[1] > $from && $_->[1] < $to } map { @{ $self->{answers}{$_} } } qw(usage row);
}

# a test that died half way leaves nobody behind
END {
  my $status = $?;
  for my $load (@running) {
    kill('KILL', $_) && waitpid($_, 0) for values %{ $load->{pid} };
  }
  $? = $status;
}

1;
