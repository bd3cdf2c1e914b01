-- Warm-up that looks at every response: body length and status must be what the
-- first two arguments say; see measure.lua for the others.  Two times in a new row
-- may each lack zeros at their end, ".12" for ".120000".  Building the arguments
-- of response() costs the load generator time, so the measured runs use
-- measure.lua instead.

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function init(args)
  want, expect = tonumber(args[1]), tonumber(args[2])
  slack = args[3] and 14 or 0
  if args[3] then
    wrk.method, wrk.body = "POST", args[3]
    wrk.headers["Content-Type"] = "application/json"
    wrk.headers["Prefer"] = "return=representation"
  end
  seen, bad, example = 0, 0, ""
end

function response(status, headers, body)
  seen = seen + 1
  if status ~= expect or math.abs(#body - want) > slack then
    bad = bad + 1
    example = status .. " with " .. #body .. " bytes"
  end
end

function done(summary)
  local seen, bad, example = 0, 0, ""
  for _, thread in ipairs(threads) do
    seen = seen + thread:get("seen")
    bad = bad + thread:get("bad")
    if thread:get("bad") > 0 then example = thread:get("example") end
  end
  local e = summary.errors
  print(string.format(
    'result {"requests": %d, "bad": %d, "example": "%s", "lost": %d}',
    seen, bad, example, e.connect + e.read + e.write + e.timeout))
end
