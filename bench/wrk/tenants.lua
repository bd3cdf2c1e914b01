-- A measured run over many tenants.  The arguments after the body length and the
-- status: a file with one "tenant key" per line, how many of its lines take part,
-- and uniform or zipf (the first line is asked for most: 1/rank).
-- Statuses and bytes are counted as in measure.lua.

local requests, count, zipf = {}, 0, false
local lines = {}

function init(args)
  count, zipf = tonumber(args[4]), args[5] == "zipf"
  for line in io.lines(args[3]) do
    lines[#lines + 1] = line
    if #lines == count then break end
  end
  math.randomseed(os.time() + tonumber(tostring({}):match("0x(%x+)"), 16) % 100000)
end

function request()
  local n = zipf and math.floor((count + 1) ^ math.random()) or math.random(count)
  if n > count then n = count end
  local made = requests[n]
  if not made then
    local tenant, key = lines[n]:match("(%S+) (%S+)")
    made = wrk.format("GET", "/v1/" .. tenant .. "/db/tables",
                      {["Host"] = "bench", ["apikey"] = key})
    requests[n] = made
  end
  return made
end

function done(summary)
  local e = summary.errors
  print(string.format(
    'result {"requests": %d, "bytes": %d, "us": %d, "bad": %d, "lost": %d}',
    summary.requests, summary.bytes, summary.duration, e.status,
    e.connect + e.read + e.write + e.timeout))
end
