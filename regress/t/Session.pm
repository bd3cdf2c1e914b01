# Session.pm
#   A psql that stays connected: for transactions and locks that outlive one
#   statement of the test.  (PostgreSQL::Test has one, too, whose interface differs
#   between minor releases of 15.)
#
#     my $session = Session->new($node);
#     $session->run('BEGIN');            # returns what psql prints
#     $session->end;

package Session;

use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Utils;

# new(NODE, database => NAME, user => NAME)
sub new {
  my ($class, $node, %with) = @_;
  my $self = bless { in => '', out => '', count => 0 }, $class;
  $self->{timer} = IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default);
  $self->{psql} = IPC::Run::start(
    [ 'psql', '-XAtq', '-f', '-', '-U', $with{user} // 'postgres',
      '-d', $node->connstr($with{database} // $Mortar::database) ],
    '<', \$self->{in}, '>', \$self->{out}, $self->{timer});
  return $self;
}

# run(SQL): waits until it is done; dies when the session is lost
sub run {
  my ($self, $sql) = @_;
  my $mark = 'end-of-statement-' . ++$self->{count};
  $self->{out} = '';
  $self->{in} .= "$sql;\n\\echo $mark\n";
  $self->{timer}->start;
  IPC::Run::pump($self->{psql}) until $self->{out} =~ /^$mark\n/m;
  $self->{out} =~ s/\n?^$mark\n//m;
  return $self->{out};
}

sub end {
  my ($self) = @_;
  $self->{in} .= "\\q\n";
  $self->{timer}->start;
  return IPC::Run::finish($self->{psql});
}

1;
