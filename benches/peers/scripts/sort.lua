-- Quicksort of 1,000,000 integers from a linear congruential generator.
local n = 1000000
local list, seed = {}, 42
for i = 1, n do
  seed = (seed * 16807) % 2147483647
  list[i] = seed
end
local function sort(lo, hi)
  while lo < hi do
    local pivot = list[math.floor((lo + hi) / 2)]
    local i, j = lo, hi
    while i <= j do
      while list[i] < pivot do i = i + 1 end
      while list[j] > pivot do j = j - 1 end
      if i <= j then
        list[i], list[j] = list[j], list[i]
        i = i + 1
        j = j - 1
      end
    end
    if j - lo < hi - i then
      sort(lo, j)
      lo = i
    else
      sort(i, hi)
      hi = j
    end
  end
end
sort(1, n)
for i = 2, n do assert(list[i - 1] <= list[i]) end
print(list[1], list[n])
