# 001_smoke.pl
#   The shortest way through everything: a tenant, a key, one request answered by
#   the gateway, and its usage visible in SQL at once.

use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Mortar;
use Test::More;

my $node = Mortar::node('main');
my $key = Mortar::tenant($node, 'acme', credits => 1, prices => 1);
my $gateway = Mortar::gateway($node);

my $answer = $gateway->request('GET', '/v1/acme/db/tables', key => $key);
is($answer->{status}, 200, 'a request with a key is served');
is_deeply($answer->{json}, [], 'the list of tables is empty');

is(Mortar::admin($node, "SELECT available_uc FROM mortar.balance('acme')"),
  1_000_000 - 10, 'the request has been paid');
is(Mortar::admin($node, "SELECT quantity FROM mortar.usage('acme') WHERE meter = 'requests'"),
  1, 'and is visible in the usage');

is($gateway->request('GET', '/v1/acme/db/tables', key => "${key}x")->{status},
  401, 'a damaged key is not');
is($gateway->ops('GET', '/live')->{status}, 200, '/live answers');
is($gateway->stop, 0, 'the gateway ends cleanly on SIGTERM');

done_testing();
