-- A measured run: nothing is done per response.  wrk itself counts statuses
-- above 399 and the bytes received; compare.py holds both against a response
-- that it fetched itself.

function done(summary)
  local e = summary.errors
  print(string.format(
    'result {"requests": %d, "bytes": %d, "us": %d, "bad": %d, "lost": %d}',
    summary.requests, summary.bytes, summary.duration, e.status,
    e.connect + e.read + e.write + e.timeout))
end
