-- 20 million calls, on objects of two classes in turn.
local Counter = {}
Counter.__index = Counter
function Counter:step(by) self.count = self.count + by end
local Doubler = setmetatable({}, { __index = Counter })
Doubler.__index = Doubler
function Doubler:step(by) self.count = self.count + 2 * by end

local a = setmetatable({ count = 0 }, Counter)
local b = setmetatable({ count = 0 }, Doubler)
for i = 1, 10000000 do
  a:step(1)
  b:step(1)
end
print(a.count + b.count)
