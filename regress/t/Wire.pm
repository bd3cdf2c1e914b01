# Wire.pm
#   One client connection, byte by byte: for requests that no HTTP client would
#   send, for several requests on one connection, and for calls that are asked
#   now and answered later.
#
#     my $wire = Wire->new($gateway);
#     $wire->ask('POST', '/v1/acme/db/rows/notes', key => $key, json => { a => 1 });
#     ...
#     my $answer = $wire->answer;        # status, headers, content, json
#     ok($wire->is_closed, 'and no byte more');
#
#   An answer is taken by its Content-Length; one that has none although its
#   status wants it ends the test, since nobody could tell where it ends.

package Wire;

use strict;
use warnings;
use IO::Select;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(time);

my $patience_s = $PostgreSQL::Test::Utils::timeout_default;
my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my $newline = "\r\n";

# new(GATEWAY): a connection to its port
sub new {
  my ($class, $gateway) = @_;
  return bless { socket => $gateway->connect_raw, buffer => '', methods => [] }, $class;
}

# send(BYTES): false when the gateway has closed the connection
sub send {
  my ($self, $bytes) = @_;
  local $SIG{PIPE} = 'IGNORE';
  for (my $at = 0; $at < length $bytes;) {
    my $sent = syswrite($self->{socket}, $bytes, length($bytes) - $at, $at);
    return 0 unless defined $sent;
    $at += $sent;
  }
  return 1;
}

# request_text(METHOD, PATH, key => KEY, headers => [NAME, VALUE...], json =>
#   DATA, body => BYTES): a well-formed request
sub request_text {
  my ($method, $path, %with) = @_;
  my $text = "$method $path HTTP/1.1\r\nhost: test\r\n";
  my @headers = @{ $with{headers} // [] };
  push @headers, 'authorization', "Bearer $with{key}" if defined $with{key};
  if (exists $with{json}) {
    push @headers, 'content-type', 'application/json';
    $with{body} = $json->encode($with{json});
  }
  push @headers, 'content-length', length $with{body} if defined $with{body};
  while (my ($name, $value) = splice(@headers, 0, 2)) { $text .= "$name: $value\r\n"; }
  return $text . $newline . ($with{body} // '');
}

# ask(...): sends what request_text makes of the arguments; returns itself
sub ask {
  my ($self, $method, @rest) = @_;
  push @{ $self->{methods} }, $method;
  $self->send(request_text($method, @rest));
  return $self;
}

# fill(): reads something; false at the end of the stream, also by a reset
sub fill {
  my ($self) = @_;
  $self->{deadline} //= time + $patience_s;
  IO::Select->new($self->{socket})->can_read($self->{deadline} - time)
    or die "no answer, after: $self->{buffer}";
  return (sysread($self->{socket}, $self->{buffer}, 65536, length $self->{buffer}) // 0) > 0;
}

# answer(METHOD): the next answer; undef when the connection ends before it
#   begins.  METHOD is needed where ask was not used, since an answer to HEAD has
#   no body.  Interim answers (1xx) count as answers.
sub answer {
  my ($self, $method) = @_;
  my %answer = (headers => {});
  delete $self->{deadline};
  while ($self->{buffer} !~ /\r\n\r\n/) {
    next if $self->fill;
    die "cut off in the head: $self->{buffer}" if $self->{buffer} ne '';
    return undef;
  }
  $self->{buffer} =~ s/^(.*?)\r\n\r\n//s;
  my ($line, @lines) = split /\r\n/, $1;
  $line =~ m{^HTTP/1\.1 (\d{3}) } or die "no status line: $line";
  @answer{qw(status head)} = ($1, $line);
  for (@lines) {
    my ($name, $value) = /^([^:]+): (.*)$/ or die "no header: $_";
    die "twice: $name" if exists $answer{headers}{ lc $name };
    $answer{headers}{ lc $name } = $value;
  }
  return \%answer if $answer{status} < 200;
  $method //= shift @{ $self->{methods} } // 'GET';
  $answer{content} = $self->body(\%answer, $method);
  $answer{json} = eval { $json->decode($answer{content}) }
    if ($answer{headers}{'content-type'} // '') =~ m{^application/(?:problem\+)?json};
  return \%answer;
}

sub body {
  my ($self, $answer, $method) = @_;
  return '' if $method eq 'HEAD' || $answer->{status} == 204 || $answer->{status} == 304;
  my $length = $answer->{headers}{'content-length'};
  die "no content-length in the answer $answer->{status}" unless defined $length;
  while (length $self->{buffer} < $length) {
    die "cut off in the body: $self->{buffer}" unless $self->fill;
  }
  return substr($self->{buffer}, 0, $length, '');
}

# is_closed(): waits for the end; true when no byte came before it
sub is_closed {
  my ($self) = @_;
  delete $self->{deadline};
  return 0 if $self->{buffer} ne '';
  return !$self->fill;
}

# is_silent(): has nothing arrived so far?
sub is_silent {
  my ($self) = @_;
  return $self->{buffer} eq '' && !IO::Select->new($self->{socket})->can_read(0);
}

sub close {
  my ($self) = @_;
  return CORE::close($self->{socket});
}

# reset(): hangs up so that the gateway gets an error, not an end
sub reset {
  my ($self) = @_;
  setsockopt($self->{socket}, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack('ii', 1, 0));
  return CORE::close($self->{socket});
}

1;
