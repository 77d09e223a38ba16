-- wrk: counts the answers of each status. For checking, not for timing: a callback runs per answer.
local threads = {}

function setup(thread)
    table.insert(threads, thread)
end

function init()
    seen = {}
end

function response(status)
    local key = tostring(status)
    seen[key] = (seen[key] or 0) + 1
end

function done()
    local parts = {}
    for _, thread in ipairs(threads) do
        for status, count in pairs(thread:get("seen")) do
            table.insert(parts, string.format('"%s":%d', status, count))
        end
    end
    io.write("RESULT {" .. table.concat(parts, ",") .. "}\n")
end
