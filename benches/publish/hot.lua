-- wrk: hot targets from a file, one per line, in an order of their own. Arguments: the file, and the milliseconds
-- between two requests of one connection.
local targets, pause = {}, 0

function init(args)
    for line in io.lines(args[1]) do
        table.insert(targets, line)
    end
    pause = tonumber(args[2])
    math.randomseed(1)
end

function delay()
    -- Not all at once.
    return math.random(0, 2 * pause)
end

function request()
    return wrk.format("GET", targets[math.random(#targets)])
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        'RESULT {"requests":%d,"bytes":%d,"micros":%d,"refused":%d,"broken":%d,"p50":%d,"p99":%d}\n',
        summary.requests, summary.bytes, summary.duration, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99)))
end
