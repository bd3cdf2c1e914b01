-- A measured run: nothing is done per response.  wrk itself counts statuses
-- above 399 and the bytes received; compare.py holds both against a response
-- that it fetched itself.  The third argument, if any, is POSTed, and the answer
-- shall hold the new row; without it the request is a GET.

function init(args)
  if args[3] then
    wrk.method, wrk.body = "POST", args[3]
    wrk.headers["Content-Type"] = "application/json"
    wrk.headers["Prefer"] = "return=representation"
  end
end

function done(summary)
  local e = summary.errors
  print(string.format(
    'result {"requests": %d, "bytes": %d, "us": %d, "bad": %d, "lost": %d}',
    summary.requests, summary.bytes, summary.duration, e.status,
    e.connect + e.read + e.write + e.timeout))
end
