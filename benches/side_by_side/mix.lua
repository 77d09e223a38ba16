-- wrk: list queries from a file, one per line. Arguments: the file, and the number of the first query.
-- "#" in a line becomes a number of nine digits that no other query has.
local queries, next_query = {}, 0

function init(args)
    for line in io.lines(args[1]) do
        table.insert(queries, line)
    end
    next_query = tonumber(args[2])
end

function request()
    next_query = next_query + 1
    local query = queries[next_query % #queries + 1]
    local unique = string.format("%09d", next_query)
    query = query:gsub("#", unique)
    return "GET /api/listings.json?" .. query .. " HTTP/1.1\r\nHost: localhost\r\n\r\n"
end

-- How the result is told.
dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "done.lua")
