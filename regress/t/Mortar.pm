# Mortar.pm
#   What the TAP tests share: a server that has the extension, a gateway in front
#   of it, and requests.
#
#     use lib 'regress/t';
#     use Mortar;
#     my $node = Mortar::node('main', conf => "mortar.flush_interval = '50ms'\n");
#     my $key = Mortar::tenant($node, 'acme', credits => 10);
#     my $gateway = Mortar::gateway($node);
#     my $answer = $gateway->request('GET', '/v1/acme/db/tables', key => $key);
#     is($answer->{status}, 200, 'an empty list');
#     is_deeply($answer->{json}, [], 'of no tables');
#
#   The node is an ordinary PostgreSQL::Test::Cluster, see there for stop,
#   restart, kill9, psql, poll_query_until, wait_for_log and the rest.
#
#   Environment: MORTAR_DESTDIR is the directory that `make install DESTDIR=...`
#   filled; without it the system's installation is tested.  Gateways and nodes
#   belong to the test that made them and end with it, by process id.

package Mortar;

use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our $database = 'mortar';
my $destdir = $ENV{MORTAR_DESTDIR} // '';

# initdb names the superuser so, whoever runs the tests
$ENV{PGUSER} = 'postgres';

sub gateway_program { return "$destdir/usr/local/bin/mortar-gateway"; }

# node(NAME, conf => TEXT, preload => 0 | 1, extension => 0 | 1, init => [...])
#   A started server with the extension preloaded, a pepper, and a database
#   "mortar" that has the extension and the login roles mortar_test_admin and
#   mortar_test_gateway.  preload => 0 leaves the library out, extension => 0 the
#   database.
sub node {
  my ($name, %with) = @_;
  my $node = PostgreSQL::Test::Cluster->new($name);
  $node->init(
    extra => [ '-U', 'postgres', '--encoding=UTF8', '--locale=C.UTF-8' ],
    @{ $with{init} // [] });
  $node->append_conf('postgresql.conf', server_settings($node, $with{preload} // 1));
  $node->append_conf('postgresql.conf', $with{conf}) if defined $with{conf};
  $node->start;
  make_database($node, $database) if $with{extension} // $with{preload} // 1;
  return $node;
}

# until_up(NODE): waits until a server that recovers from a crash lets clients in.
#   poll_query_until would write its query to a psql that may be gone already.
sub until_up {
  my ($node) = @_;
  for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default) {
    return if system('pg_isready', '-q', '-h', $node->host, '-p', $node->port) == 0;
    select(undef, undef, undef, 0.1);
  }
  die 'the server does not come back';
}

# server_settings(NODE, PRELOAD): lines for postgresql.conf
sub server_settings {
  my ($node, $preload) = @_;
  my $text = '';
  if ($destdir ne '') {
    my $libraries = $node->config_data('--pkglibdir');
    $text .= "extension_destdir = '$destdir'\n"
      . "dynamic_library_path = '$destdir$libraries:\$libdir'\n";
  }
  return $text unless $preload;
  my $pepper = $node->basedir . '/pepper';
  # what a test puts under the server is not for a program with AddressSanitizer
  delete local $ENV{LD_PRELOAD};
  system_or_bail(gateway_program(), '--make-pepper', $pepper) unless -e $pepper;
  return $text . "shared_preload_libraries = 'mortar'\nmortar.pepper_file = '$pepper'\n";
}

# make_database(NODE, NAME): with the extension; roles are made once a cluster
sub make_database {
  my ($node, $name) = @_;
  $node->safe_psql('postgres', "CREATE DATABASE $name");
  $node->safe_psql($name, 'CREATE EXTENSION mortar');
  for my $role (qw(admin gateway)) {
    next if $node->safe_psql($name, "SELECT 1 FROM pg_roles WHERE rolname = 'mortar_test_$role'");
    $node->safe_psql($name, "CREATE ROLE mortar_test_$role LOGIN IN ROLE mortar_$role");
  }
  return;
}

# admin(NODE, SQL): what a DBA who is no superuser gets; dies on an error
sub admin {
  my ($node, $sql, %with) = @_;
  return $node->safe_psql($with{database} // $database, $sql,
    extra_params => [ '-U', 'mortar_test_admin' ]);
}

# tenant(NODE, NAME, credits => N, prices => 0 | 1): creates it, returns a key.
#   Prices are 0.3 credits a GB and 10 micro-credits a request; they hold for the
#   whole database, so only the first tenant of a test sets them.
sub tenant {
  my ($node, $tenant, %with) = @_;
  my $sql = "SELECT mortar.create_tenant('$tenant');\n";
  $sql .= "SELECT mortar.grant_credits('$tenant', mortar.credits($with{credits}), 'first');\n"
    if $with{credits};
  $sql .= "SELECT mortar.set_price('egress_bytes', 300000, 1000000000);\n"
    . "SELECT mortar.set_price('requests', 10, 1);\n"
    if $with{prices};
  admin($node, $sql, %with);
  return admin($node, "SELECT mortar.create_key('$tenant', 'test')", %with);
}

# write_file(PATH, TEXT): makes the file, or replaces what it held
sub write_file {
  my ($path, $text) = @_;
  open(my $file, '>', $path) or die "$path: $!";
  print {$file} $text;
  close($file) or die "$path: $!";
  return;
}

# gateway(NODE, args => [...], database => NAME, ready => 0 | 1): see Mortar::Gateway
sub gateway { return Mortar::Gateway->new(@_); }

package Mortar::Gateway;

# A mortar-gateway on free ports of 127.0.0.1.

use strict;
use warnings;
use HTTP::Tiny;
use IO::Socket::INET;
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my @running;
my $count = 0;
my $patience_s = $PostgreSQL::Test::Utils::timeout_default;

sub new {
  my ($class, $node, %with) = @_;
  # beside the node's own log, which carries the test's name; logs of an earlier
  # run of the test must not be read as this one's
  (my $log = $node->logfile) =~ s/\.log$//;
  my $self = bless { log => $log . '-gateway-' . $count++ . '.log' }, $class;
  unlink $self->{log};
  my @command = (Mortar::gateway_program(), '--port', 0, @{ $with{args} // [] });

  my $pid = fork();
  die "fork: $!" unless defined $pid;
  if ($pid == 0) {
    $ENV{PGHOST} = $node->host;
    $ENV{PGPORT} = $node->port;
    $ENV{PGUSER} = 'mortar_test_gateway';
    $ENV{PGDATABASE} = $with{database} // $Mortar::database;
    open(STDIN, '<', '/dev/null') or POSIX::_exit(126);
    open(STDOUT, '>', $self->{log}) or POSIX::_exit(126);
    open(STDERR, '>&', \*STDOUT) or POSIX::_exit(126);
    # neither perl's END blocks nor the harness's pipes belong to the gateway
    { no warnings 'exec'; exec { $command[0] } @command; }
    POSIX::_exit(127);
  }
  $self->{pid} = $pid;
  push @running, $self;
  my $listening = qr{listening on http://127\.0\.0\.1:(\d+), ops on http://127\.0\.0\.1:(\d+)};
  $self->wait_for_log($listening);
  ($self->{port}, $self->{ops_port}) = $self->log =~ $listening;
  $self->wait_ready if $with{ready} // 1;
  return $self;
}

sub pid { return $_[0]{pid}; }
sub port { return $_[0]{port}; }
sub ops_port { return $_[0]{ops_port}; }
sub log { return -e $_[0]{log} ? slurp_file($_[0]{log}) : ''; }

# until(WHAT, CODE): waits for CODE to be true while the gateway lives
sub until {
  my ($self, $what, $code) = @_;
  for (1 .. $patience_s * 20) {
    my $alive = $self->alive;
    return 1 if $code->();
    last unless $alive;
    usleep(50_000);
  }
  diag($self->log);
  die "gateway: waited in vain for $what";
}

sub wait_for_log {
  my ($self, $pattern) = @_;
  return $self->until("a log line like $pattern", sub { $self->log =~ $pattern });
}

sub wait_ready {
  my ($self) = @_;
  return $self->until('/ready', sub { $self->ops('GET', '/ready')->{status} == 200 });
}

# request(METHOD, PATH, key => KEY, headers => {...}, body => BYTES, json => DATA)
#   One request on a connection of its own.  The answer is that of HTTP::Tiny
#   (status, headers, content) with the member json when the content is JSON; 599
#   says that there was no answer.
sub request {
  my ($self, $method, $path, %with) = @_;
  my $headers = { %{ $with{headers} // {} } };
  $headers->{authorization} = "Bearer $with{key}" if defined $with{key};
  if (exists $with{json}) {
    $headers->{'content-type'} //= 'application/json';
    $with{body} = JSON::PP->new->utf8->canonical->allow_nonref->encode($with{json});
  }
  my $port = $with{port} // $self->{port};
  my $client = HTTP::Tiny->new(keep_alive => 0, max_redirect => 0,
    timeout => $patience_s, proxy => undef, http_proxy => undef);
  my $answer = $client->request($method, "http://127.0.0.1:$port$path",
    { headers => $headers, defined $with{body} ? (content => $with{body}) : () });
  if (($answer->{headers}{'content-type'} // '') =~ m{^application/(?:problem\+)?json}) {
    $answer->{json} = eval { JSON::PP->new->utf8->allow_nonref->decode($answer->{content}) };
  }
  return $answer;
}

# ops(METHOD, PATH, ...): the same on the operations listener
sub ops {
  my ($self, $method, $path, %with) = @_;
  return $self->request($method, $path, %with, port => $self->{ops_port});
}

# connect_raw(): a socket, for what no HTTP client would send
sub connect_raw {
  my ($self) = @_;
  my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}, Timeout => 10)
    or die "gateway: connect: $!";
  $socket->autoflush(1);
  return $socket;
}

# raw(BYTES): sends them and returns all that comes back until the gateway closes
sub raw {
  my ($self, $bytes, %with) = @_;
  my $socket = $self->connect_raw;
  print {$socket} $bytes;
  shutdown($socket, 1) if $with{half_close};
  my $answer = '';
  local $SIG{ALRM} = sub { die "gateway: no end of answer within $patience_s s, so far: $answer" };
  alarm $patience_s;
  while (sysread($socket, my $piece, 65536)) { $answer .= $piece; }
  alarm 0;
  return $answer;
}

sub alive {
  my ($self) = @_;
  return 0 unless defined $self->{pid};
  if (waitpid($self->{pid}, POSIX::WNOHANG()) == $self->{pid}) {
    ($self->{status}, $self->{pid}) = ($?, undef);
    return 0;
  }
  return 1;
}

sub signal {
  my ($self, $name) = @_;
  return defined $self->{pid} && kill($name, $self->{pid});
}

# wait_exit(): the wait status of a gateway that is on its way out
sub wait_exit {
  my ($self) = @_;
  for (1 .. $patience_s * 20) {
    return $self->{status} unless $self->alive;
    usleep(50_000);
  }
  die "gateway: it does not end";
}

# stop(): SIGTERM; the wait status, 0 for a clean exit
sub stop {
  my ($self) = @_;
  $self->signal('TERM');
  return $self->wait_exit;
}

# a test that died half way leaves nothing behind
END {
  my $status = $?;
  for my $gateway (@running) {
    $gateway->signal('KILL') if $gateway->alive;
    waitpid($gateway->{pid}, 0) if defined $gateway->{pid};
  }
  $? = $status;
}

1;
