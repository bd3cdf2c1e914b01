# Proxy.pm
#   Stands between a gateway and its server, for a server that is slow to read.
#
#     my $proxy = Proxy->new($node, 'STALL');
#     my $gateway = Mortar::gateway($proxy);
#     ... a call whose parameters hold the word STALL ...
#     $proxy->wait_full;        # the gateway has sent what fits, and waits
#     ...
#     $proxy->go_on;            # whatever came meanwhile reaches the server
#
#   The first connection on which the word comes is held up, once; the others
#   are passed on.  Each connection has a process of its own, which ends with it.

package Proxy;

use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Utils;
use Socket;
use Time::HiRes qw(usleep);

my @running;

# new(NODE, WORD): takes NODE's place for Mortar::gateway
sub new {
  my ($class, $node, $word) = @_;
  my $dir = PostgreSQL::Test::Utils::tempdir_short();
  my $self = bless {
    node => $node, host => $dir, port => $node->port, name => $node->name . '-proxy', word => $word, flag => "$dir/held",
    server => $node->host . '/.s.PGSQL.' . $node->port,
  }, $class;
  my $door = IO::Socket::UNIX->new(Local => "$dir/.s.PGSQL.$self->{port}", Listen => 64) or die "proxy: $!";
  my ($said, $say, $go, $wait);
  pipe($said, $say) && pipe($wait, $go) or die "pipe: $!";
  my $pid = fork() // die "fork: $!";
  if ($pid == 0) {
    close $_ for $said, $go;
    @$self{qw(say wait)} = ($say, $wait);
    $say->autoflush(1);
    local $SIG{CHLD} = 'IGNORE';
    while (my $client = $door->accept) {
      next if fork() // die "fork: $!";
      close $door;
      $self->pass($client);
      POSIX::_exit(0);
    }
    POSIX::_exit(1);
  }
  @$self{qw(pid said go)} = ($pid, $said, $go);
  push @running, $self;
  return $self;
}

sub host { return $_[0]{host}; }
sub port { return $_[0]{port}; }
sub name { return $_[0]{name}; }
sub logfile { return $_[0]{node}->logfile; }

# buffer_size(): bytes that the kernel keeps for a socket like the gateway's
sub buffer_size {
  socketpair(my $one, my $other, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!";
  return unpack('i', getsockopt($one, SOL_SOCKET, SO_SNDBUF));
}

sub read_line {
  my ($self) = @_;
  local $SIG{ALRM} = sub { die 'proxy: it says nothing' };
  alarm $PostgreSQL::Test::Utils::timeout_default;
  my $line = readline $self->{said};
  alarm 0;
  chomp $line;
  return $line;
}

# wait_full(): until the held connection takes no more.  A good quarter of it is
# then read: room for the rest, yet too little for epoll to speak of room.
sub wait_full {
  my ($self) = @_;
  $self->read_line eq 'full' or die 'proxy: not full';
  return;
}

# go_on(): lets the held connection go on to its end; the last bytes that it
# carried
sub go_on {
  my ($self) = @_;
  close $self->{go};
  return pack('H*', $self->read_line);
}

# -- in the processes of the connections --------------------------------------

sub send_all {
  my ($socket, $bytes) = @_;
  local $SIG{PIPE} = 'IGNORE';
  for (my $at = 0; $at < length $bytes;) {
    my $sent = syswrite($socket, $bytes, length($bytes) - $at, $at);
    return unless defined $sent;
    $at += $sent;
  }
  return;
}

sub unread_bytes {
  my ($socket) = @_;
  my $count = pack('i', 0);
  ioctl($socket, 0x541B, $count) or die "FIONREAD: $!";
  return unpack('i', $count);
}

# hold(CLIENT, SERVER, BYTES): BYTES were the first with the word
sub hold {
  my ($self, $client, $server, $bytes) = @_;
  my ($before, $quiet) = (0, 0);
  while ($quiet < 10) {
    my $now = unread_bytes($client);
    $quiet = $now > 0 && $now == $before ? $quiet + 1 : 0;
    $before = $now;
    usleep(20_000);
  }
  my $room = length($bytes) + int(0.28 * buffer_size());
  while (length $bytes < $room) { sysread($client, $bytes, $room - length $bytes, length $bytes) or last; }
  print { $self->{say} } "full\n";
  readline $self->{wait};
  while (sysread($client, $bytes, 65536, length $bytes)) { }
  send_all($server, $bytes);
  shutdown($server, 1);
  # what the server does with it is done when it hangs up
  while (sysread($server, my $answer, 65536)) { }
  print { $self->{say} } unpack('H*', substr($bytes, -16)), "\n";
  return;
}

sub pass {
  my ($self, $client) = @_;
  my $server = IO::Socket::UNIX->new(Peer => $self->{server}) or return;
  my $both = IO::Select->new($client, $server);
  while (my @ready = $both->can_read) {
    for my $from (@ready) {
      sysread($from, my $bytes, 4096) or return;
      if ($from == $client && index($bytes, $self->{word}) >= 0 && mkdir $self->{flag}) {
        return $self->hold($client, $server, $bytes);
      }
      send_all($from == $client ? $server : $client, $bytes);
    }
  }
  return;
}

END {
  my $status = $?;
  for my $proxy (@running) {
    kill 'TERM', $proxy->{pid};
    waitpid($proxy->{pid}, 0);
  }
  $? = $status;
}

1;
