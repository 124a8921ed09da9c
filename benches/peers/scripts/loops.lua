-- 64 million rounds.
local n, sum = 400, 0
for i = 0, n - 1 do
  for j = 0, n - 1 do
    for k = 0, n - 1 do
      sum = (sum + i * j + k) % 1000003
    end
  end
end
print(sum)
