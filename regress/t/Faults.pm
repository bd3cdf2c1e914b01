# Faults.pm
#   Documents that misbehave while they are inserted.
#
#     Faults::install($node);
#     my $gate = Faults::close_gate($node, 7);     # a Session that holds it
#     $wire->ask('POST', ..., json => { gate => 7 });  # waits there
#     Faults::wait_at_gate($node, 7, 1);
#     $gate->end;                                  # opens it
#
#   Members of a document, and what inserting it does:
#     gate    N            waits while somebody holds gate N
#     fail    [STATE, ..]  raises that SQLSTATE, with message, detail and hint
#     flaky   N            raises 40001 as often as N says, counted in a sequence
#                          that no rollback takes back
#     late    [STATE, ..]  as fail, but at commit, when the row has been sent
#     defer   [STATE, ..]  as fail, but in a deferred constraint trigger
#   The triggers are the superuser's own, on the table behind all documents.

package Faults;

use strict;
use warnings;
use FindBin;
use Mortar;
use Session;

# install(NODE, database => NAME)
sub install {
  my ($node, %with) = @_;
  $node->safe_psql($with{database} // $Mortar::database, <<"SQL");
CREATE FUNCTION public.late_error(text, text, text) RETURNS void
  LANGUAGE c STRICT AS '$FindBin::Bin/../modules/late_error';
CREATE SEQUENCE public.flaky;
GRANT ALL ON SEQUENCE public.flaky TO PUBLIC;
CREATE TABLE public.deferred (who text, tenant text);
GRANT INSERT ON public.deferred TO PUBLIC;

CREATE FUNCTION public.fault() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
  IF NEW.doc ? 'gate' THEN
    PERFORM pg_advisory_xact_lock_shared((NEW.doc->>'gate')::int8);
  END IF;
  IF NEW.doc ? 'fail' THEN
    RAISE EXCEPTION USING ERRCODE = NEW.doc->'fail'->>0, MESSAGE = NEW.doc->'fail'->>1,
      DETAIL = NEW.doc->'fail'->>2, HINT = 'hint-of-the-server';
  END IF;
  IF NEW.doc ? 'flaky' THEN
    IF nextval('public.flaky') <= (NEW.doc->>'flaky')::int8 THEN
      RAISE EXCEPTION 'flaky' USING ERRCODE = '40001';
    END IF;
  END IF;
  IF NEW.doc ? 'late' THEN
    PERFORM public.late_error(NEW.doc->'late'->>0, NEW.doc->'late'->>1, NEW.doc->'late'->>2);
  END IF;
  RETURN NEW;
END \$\$;
CREATE TRIGGER fault BEFORE INSERT ON mortar.doc_rows FOR EACH ROW
  WHEN (NEW.doc ?| '{gate,fail,flaky,late}') EXECUTE FUNCTION public.fault();

CREATE FUNCTION public.deferred_fault() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
  INSERT INTO public.deferred VALUES (current_user, mortar.tenant_id());
  IF NEW.doc->'defer'->>0 <> '00000' THEN
    RAISE EXCEPTION USING ERRCODE = NEW.doc->'defer'->>0, MESSAGE = NEW.doc->'defer'->>1;
  END IF;
  RETURN NULL;
END \$\$;
CREATE CONSTRAINT TRIGGER deferred_fault AFTER INSERT ON mortar.doc_rows
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.doc ? 'defer') EXECUTE FUNCTION public.deferred_fault();
SQL
  return;
}

# close_gate(NODE, N): the session that holds it; its end opens the gate
sub close_gate {
  my ($node, $gate, %with) = @_;
  my $session = Session->new($node, %with);
  $session->run("SELECT pg_advisory_lock($gate)");
  return $session;
}

# wait_connected(GATEWAY): until all of its database connections are there; it is
#   ready with one a thread, and then two calls at once may share that
sub wait_connected {
  my ($gateway) = @_;
  return $gateway->until('all connections', sub {
    my $ready = $gateway->ops('GET', '/ready')->{json};
    return $ready->{connections} == $ready->{of};
  });
}

# wait_at_gate(NODE, GATE, N): until N calls wait there
sub wait_at_gate {
  my ($node, $gate, $count, %with) = @_;
  $node->poll_query_until($with{database} // $Mortar::database,
    'SELECT count(*) >= ' . $count . ' FROM pg_locks'
      . " WHERE locktype = 'advisory' AND objid = $gate AND NOT granted")
    or die "gate $gate: $count calls never came";
  return;
}

1;
