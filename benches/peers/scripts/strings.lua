-- 200 texts of 10,000 pieces each: 2 million pieces.
local length = 0
for round = 1, 200 do
  local pieces = {}
  for i = 1, 10000 do pieces[#pieces + 1] = "n" .. i end
  length = length + #table.concat(pieces)
end
print(length)
