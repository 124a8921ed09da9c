// 20 million small objects, of which a window of 1,000 lives.
const window = new Array(1000);
let sum = 0;
for (let round = 0; round < 20000; round++) {
  for (let i = 0; i < 1000; i++) {
    window[i] = { next: null, value: i };
  }
  sum += window[round % 1000].value;
}
console.log(sum);
