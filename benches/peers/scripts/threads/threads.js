// The workloads of threads.py: `threads.js WORKLOAD OPERATIONS`.
const [workload, count] = process.argv.slice(2);
const n = Number(count);

async function turns(n) {
  for (let i = 0; i < n; i++) await undefined;
}

const workloads = {
  yield: () => Promise.all([turns(n / 2), turns(n / 2)]),
  async spawn() {
    for (let i = 0; i < n; i++) await (async () => {})();
  },
  async million() {
    let sum = 0;
    const gates = [];
    const wait = async () => {
      const value = await new Promise((resolve) => gates.push(resolve));
      sum += value;
    };
    const all = [];
    for (let i = 0; i < n; i++) all.push(wait());
    for (const open of gates) open(1);
    await Promise.all(all);
    if (sum !== n) throw new Error("not all were woken");
  },
};

if (!(workload in workloads)) process.exit(3);
workloads[workload]();
