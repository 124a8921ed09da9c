-- 20 million small objects, of which a window of 1,000 lives.
local window = {}
local sum = 0
for round = 0, 19999 do
  for i = 0, 999 do
    window[i + 1] = { next = nil, value = i }
  end
  sum = sum + window[round % 1000 + 1].value
end
print(sum)
