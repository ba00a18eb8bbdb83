-- The requests of the programs `json` and `close`. The first argument is the program's name.
local count = 0

function init(args)
  if args[1] == "json" then
    local body = '{"id":7,"name":"a word or two","amounts":[1.5,2.25,1000.125]}'
    local order = wrk.format("POST", "/order", { ["Content-Type"] = "application/json" }, body)
    request = function() return order end
  else
    local page = wrk.format("GET", "/")
    local last = wrk.format("GET", "/", { ["Connection"] = "close" })
    -- One of ten requests ends its connection. All connections share the count.
    request = function()
      count = count + 1
      if count % 10 == 0 then return last end
      return page
    end
  end
end
