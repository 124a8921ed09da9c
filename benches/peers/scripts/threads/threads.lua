-- The workloads of threads.py: `threads.lua WORKLOAD OPERATIONS`.
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield

local function yields(n)
  for _ = 1, n do yield() end
end

local workloads = {}

-- One switch each way: a resume and a yield are two operations.
function workloads.yield(n)
  local task = create(yields)
  for _ = 1, n / 2 do resume(task, n) end
end

-- By a scheduler: from one task to another, the fastest that there is for two of them.
function workloads.turns(n)
  local a, b = create(yields), create(yields)
  for _ = 1, n / 2 do
    resume(a, n)
    resume(b, n)
  end
end

function workloads.spawn(n)
  local function nothing() end
  for _ = 1, n do resume(create(nothing)) end
end

-- What a channel would be without a queue: the resume takes a value there, the yield one back.
function workloads.message(n)
  local task = create(function(value)
    while true do value = yield(value) end
  end)
  for i = 1, n / 2 do
    local _, back = resume(task, i)
    assert(back == i)
  end
end

function workloads.million(n)
  local sum, all = 0, {}
  local function wait()
    local value = yield()
    sum = sum + value
  end
  for i = 1, n do
    local task = create(wait)
    resume(task)
    all[i] = task
  end
  for i = 1, n do resume(all[i], 1) end
  for i = 1, n do assert(coroutine.status(all[i]) == "dead") end
  assert(sum == n)
end

workloads[arg[1]](tonumber(arg[2]))
