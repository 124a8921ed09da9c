//! The code of small pieces of source: what hot paths consist of, and where values go.

use super::compile;
use crate::vm::disasm::FunctionListing;
use crate::vm::verify::{Library, verify};

/// The instructions and handlers of a function of a program, which the verifier takes.
fn code(text: &str, name: &str) -> String {
    let module = compile(text);
    let index = module.functions.iter().position(|function| function.name == name);
    let index = index.unwrap_or_else(|| panic!("there is no function `{name}`"));
    let listing = FunctionListing { module: &module, index }.to_string();
    verify(module, &Library).unwrap_or_else(|error| panic!("{error}\n{listing}"));
    let keep = |line: &&str| {
        let line = line.trim_start();
        !line.starts_with("line ") && !line.starts_with("local ")
    };
    let lines: Vec<&str> = listing.lines().filter(keep).map(|line| line.trim_start()).collect();
    lines.join("\n")
}

#[test]
fn nested_loops_test_at_the_bottom_and_step_in_the_test() {
    let text = "
        int work(int n) {
            int x = 0;
            for (int i = 0; i < n; i = i + 1) {
                for (int j = 0; j < 1000; j += 1) { x = x + i * j % 7; }
            }
            return x;
        }";
    insta::assert_snapshot!(code(text, "work"), @r#"
    func #0 int work(int)  registers 5  "test.n"
    0  int          r1, 0
    1  int          r2, 0
    2  jump.le.int  r0, r2, @9
    3  int          r3, 0
    4  mul.int      r4, r2, r3
    5  mod.int.k    r4, r4, 7
    6  add.int      r1, r1, r4
    7  loop.inc.lt.int.k r3, 1000, @4
    8  loop.inc.lt.int r2, r0, @3
    9  return       r1
    "#);
}

#[test]
fn a_while_loop_whose_last_statement_counts_is_a_counting_loop() {
    let text = "
        int work(int n) {
            int s = 0;
            while (n > 0) { s += n; n -= 1; }
            long i = 0;
            do { s += 2; i += 1; } while (i < 10);
            return s;
        }";
    insta::assert_snapshot!(code(text, "work"), @r#"
    func #0 int work(int)  registers 3  "test.n"
    0  int          r1, 0
    1  jump.le.int.k r0, 0, @4
    2  add.int      r1, r1, r0
    3  loop.dec.ge.int.k r0, 1, @2
    4  int          r2, 0
    5  add.int.k    r1, r1, 2
    6  loop.inc.lt.long.k r2, 10, @5
    7  return       r1
    "#);
}

#[test]
fn sorting_compares_elements_right_from_their_registers() {
    let text = "
        void quick(int[] a, int low, int high) {
            while (low < high) {
                int pivot = a[(low + high) / 2];
                int i = low;
                int j = high;
                while (i <= j) {
                    while (a[i] < pivot) { i += 1; }
                    while (a[j] > pivot) { j -= 1; }
                    if (i <= j) { int t = a[i]; a[i] = a[j]; a[j] = t; i += 1; j -= 1; }
                }
                if (j - low < high - i) { quick(a, low, j); low = i; }
                else { quick(a, i, high); high = j; }
            }
        }";
    insta::assert_snapshot!(code(text, "quick"), @r#"
    func #0 void quick(int[], int, int)  registers 10  "test.n"
    0  jump.le.int  r2, r1, @37
    1  add.int      r4, r1, r2
    2  div.int.k    r4, r4, 2
    3  array.get.32 r3, r0, r4
    4  move.2       r4, r1, r2
    5  jump.lt.int  r5, r4, @24
    6  array.get.32 r6, r0, r4
    7  jump.le.int  r3, r6, @11
    8  add.int.k    r4, r4, 1
    9  array.get.32 r6, r0, r4
    10  loop.lt.int  r6, r3, @8
    11  array.get.32 r6, r0, r5
    12  jump.le.int  r6, r3, @16
    13  add.int.k    r5, r5, -1
    14  array.get.32 r6, r0, r5
    15  loop.lt.int  r3, r6, @13
    16  jump.lt.int  r5, r4, @23
    17  array.get.32 r6, r0, r4
    18  array.get.32 r7, r0, r5
    19  array.set.32 r0, r4, r7
    20  array.set.32 r0, r5, r6
    21  add.int.k    r4, r4, 1
    22  add.int.k    r5, r5, -1
    23  loop.le.int  r4, r5, @6
    24  sub.int      r6, r5, r1
    25  sub.int      r7, r2, r4
    26  jump.le.int  r7, r6, @32
    27  move.2       r7, r0, r1
    28  move         r9, r5
    29  call         r7, #0 quick
    30  move         r1, r4
    31  jump         @36
    32  move.2       r7, r0, r4
    33  move         r9, r2
    34  call         r7, #0 quick
    35  move         r2, r5
    36  loop.lt.int  r1, r2, @1
    37  return.void
    "#);
}

#[test]
fn methods_are_called_with_the_receiver_in_place() {
    let text = "
        class Counter {
            int n;
            public void add(int k) { n = n + k; }
            public int get() { return n; }
            virtual public int twice() { return n * 2; }
        }
        class Other : Counter { public int twice() { return 0; } }
        class Leaf : Other { }
        int work(Counter c, Leaf leaf, int rounds) {
            for (int i = 0; i < rounds; i += 1) { c.add(i); }
            int x = c.get();
            return x + c.twice() + leaf.twice();
        }";
    insta::assert_snapshot!(code(text, "work"), @r#"
    func #0 int work(Counter, Leaf, int)  registers 8  "test.n"
    0  int          r3, 0
    1  jump.le.int  r2, r3, @5
    2  move.2       r5, r0, r3
    3  call.method  r5, #1 Counter.add
    4  loop.inc.lt.int r3, r2, @2
    5  move         r4, r0
    6  call.method  r4, #2 Counter.get
    7  move         r6, r0
    8  call.virtual r6, :3
    9  add.int      r5, r4, r6
    10  move         r7, r1
    11  call.method  r7, #4 Other.twice
    12  add.int      r5, r5, r7
    13  return       r5
    "#);
    insta::assert_snapshot!(code(text, "Counter.add"), @r#"
    func #1 void Counter.add(Counter, int)  method  registers 2  "test.n"
    0  add.field.int r0, .0, r1
    1  return.void
    "#);
}

#[test]
fn fields_of_doubles_take_three_instructions_for_a_compound_assignment() {
    let text = "
        import math;
        class Body { double x; double vx; double mass; }
        void step(Body[] bodies, double dt) {
            int n = bodies.length();
            for (int i = 0; i < n; i += 1) {
                Body a = bodies[i];
                double d = a.x * 2.5 + 1.0;
                double mag = dt / (d * math.sqrt(d));
                a.vx -= d * a.mass * mag;
            }
        }";
    insta::assert_snapshot!(code(text, "step"), @r#"
    func #0 void step(Body[], double)  registers 10  "test.n"
    0  array.length r2, r0
    1  const        r3, #0 4607182418800017408 (1.0)
    2  const        r4, #1 4612811918334230528 (2.5)
    3  int          r5, 0
    4  jump.le.int  r2, r5, @17
    5  array.get.64 r6, r0, r5
    6  get          r8, r6, .0
    7  mul.double   r8, r8, r4
    8  add.double   r7, r8, r3
    9  sqrt.double  r9, r7
    10  mul.double   r9, r7, r9
    11  div.double   r8, r1, r9
    12  get          r9, r6, .2
    13  mul.double   r9, r7, r9
    14  mul.double   r9, r9, r8
    15  sub.field.double r6, .1, r9
    16  loop.inc.lt.int r5, r2, @5
    17  return.void
    "#);
}

#[test]
fn conditions_are_jumps_and_make_no_bools() {
    let text = "
        int test(int a, int b, bool c, string s, Object o, double d, ulong u) {
            if (a < b && (c || b != 3) && !(a == 100000)) { a = 1; }
            if (!(a < 5 || c == false)) { a = 2; }
            if (o == null || s == \"x\") { a = 3; }
            while (c && a > 0) { if (a == 7) { break; } if (b == 8) { continue; } a -= 2; }
            if (d < 1.5) { a = 4; }
            if (!(d <= 1.5)) { a = 5; }
            if (u < 10) { a = 6; }
            if (u == 10) { a = 7; }
            return a;
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #0 int test(int, int, bool, string, Object, double, ulong)  registers 8  "test.n"
    0  jump.le.int  r1, r0, @6
    1  jump.if      r2, @3
    2  jump.eq.int.k r1, 3, @6
    3  int          r7, 100000
    4  jump.eq      r0, r7, @6
    5  int          r0, 1
    6  jump.lt.int.k r0, 5, @9
    7  jump.ifnot   r2, @9
    8  int          r0, 2
    9  jump.null    r4, @13
    10  text         r7, #0 "x"
    11  eq.text      r7, r3, r7
    12  jump.ifnot   r7, @14
    13  int          r0, 3
    14  jump.ifnot   r2, @21
    15  jump.le.int.k r0, 0, @21
    16  jump.eq.int.k r0, 7, @21
    17  jump.eq.int.k r1, 8, @19
    18  add.int.k    r0, r0, -2
    19  jump.ifnot   r2, @21
    20  loop.gt.int.k r0, 0, @16
    21  const        r7, #0 4609434218613702656 (1.5)
    22  jump.notlt.double r5, r7, @24
    23  int          r0, 4
    24  const        r7, #0 4609434218613702656 (1.5)
    25  jump.le.double r5, r7, @27
    26  int          r0, 5
    27  int          r7, 10
    28  jump.le.ulong r7, r6, @30
    29  int          r0, 6
    30  jump.ne.long.k r6, 10, @32
    31  int          r0, 7
    32  return       r0
    "#);
}

#[test]
fn bools_are_made_where_they_are_wanted() {
    let text = "
        bool test(int a, int b, bool c) {
            bool x = a < b && c;
            x = x || b >= a;
            c = a == b || c;
            return x && (c || a != 1);
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #0 bool test(int, int, bool)  registers 4  "test.n"
    0  lt.int       r3, r0, r1
    1  jump.ifnot   r3, @3
    2  move         r3, r2
    3  jump.if      r3, @5
    4  le.int       r3, r0, r1
    5  jump.ne      r0, r1, @7
    6  int          r2, 1
    7  jump.ifnot   r3, @11
    8  jump.if      r2, @10
    9  jump.eq.int.k r0, 1, @11
    10  return.int   1
    11  return.int   0
    "#);
}

#[test]
fn arguments_are_evaluated_into_the_window_in_written_order() {
    let text = "
        int g(int x) { return x; }
        int f(int a, int b = a + 1, int c = g(b)) { return a + b + c; }
        int test(int n) {
            int x = f(c = g(1), a = n * 2, b = 3);
            int y = f(g(g(n)));
            return f(x, g(y));
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #2 int test(int)  registers 10  "test.n"
    0  int          r3, 1
    1  call         r3, #0 g
    2  move         r4, r3
    3  mul.int.k    r2, r0, 2
    4  int          r3, 3
    5  call         r2, #1 f
    6  move         r4, r0
    7  call         r4, #0 g
    8  call         r4, #0 g
    9  add.int.k    r5, r4, 1
    10  move         r7, r5
    11  call         r7, #0 g
    12  move         r6, r7
    13  call         r4, #1 f
    14  move         r6, r2
    15  move         r8, r4
    16  call         r8, #0 g
    17  move         r7, r8
    18  move         r9, r7
    19  call         r9, #0 g
    20  move         r8, r9
    21  call         r6, #1 f
    22  return       r6
    "#);
}

#[test]
fn a_try_costs_nothing_on_the_way_in_and_finally_an_exception_register() {
    let text = "
        int g() { return 1; }
        int catching(int n) {
            try { n = g(); } catch (IOException e) { n = 2; } catch (Exception e) { n = 3; throw; }
            return n;
        }
        int finishing(int n) {
            try { n = g(); } finally { n += 1; }
            return n;
        }
        int both(int n) {
            while (true) {
                try {
                    if (n == 1) { return g(); }
                    if (n == 2) { break; }
                } catch (Exception e) {
                    e = null;
                    if (n == 3) { continue; }
                    throw;
                } finally { n += 1; }
            }
            return n;
        }";
    insta::assert_snapshot!(code(text, "catching"), @r#"
    func #1 int catching(int)  registers 3  "test.n"
    0  call         r2, #0 g
    1  move         r0, r2
    2  return       r0
    3  int          r0, 2
    4  return       r0
    5  int          r0, 3
    6  throw        r1
    [0..2) -> @3  r1 IOException
    [0..2) -> @5  r1 Exception
    "#);
    insta::assert_snapshot!(code(text, "finishing"), @r#"
    func #2 int finishing(int)  registers 4  "test.n"
    0  null         r1, #17 Exception
    1  call         r3, #0 g
    2  move         r0, r3
    3  add.int.k    r0, r0, 1
    4  jump.null    r1, @6
    5  throw        r1
    6  return       r0
    [1..3) -> @3  r1 Exception
    "#);
    insta::assert_snapshot!(code(text, "both"), @r#"
    func #3 int both(int)  registers 6  "test.n"
    0  null         r1, #17 Exception
    1  int          r2, 0
    2  int          r3, 0
    3  jump.ne.int.k r0, 1, @8
    4  call         r5, #0 g
    5  move         r3, r5
    6  int          r2, 1
    7  jump         @17
    8  jump.ne.int.k r0, 2, @17
    9  int          r2, 2
    10  jump         @17
    11  move         r5, r4
    12  null         r4, #17 Exception
    13  jump.ne.int.k r0, 3, @16
    14  int          r2, 3
    15  jump         @17
    16  throw        r5
    17  add.int.k    r0, r0, 1
    18  jump.null    r1, @20
    19  throw        r1
    20  jump.ne.int.k r2, 1, @22
    21  return       r3
    22  jump.ne.int.k r2, 2, @24
    23  return       r0
    24  jump.ne.int.k r2, 3, @26
    25  loop         @0
    26  loop         @0
    [3..11) -> @11  r4 Exception
    [3..17) -> @17  r1 Exception
    "#);
}

#[test]
fn dense_labels_make_a_table_and_others_tests_in_order() {
    let text = "
        int dense(int n) {
            switch (n) {
                case 1: return 10;
                case 2, 3: n = 5; break;
                case -1: { n = 6; }
                default: n = 7;
            }
            return n;
        }
        int sparse(char c, string s) {
            switch (c) { case 'a': return 1; case 'z': return 2; }
            switch (s) { case \"one\", \"two\": return 3; default: return 4; }
        }";
    insta::assert_snapshot!(code(text, "dense"), @r#"
    func #0 int dense(int)  registers 2  "test.n"
    0  int.long     r1, r0
    1  switch       r1, switch #0
    2  return.int   10
    3  int          r0, 5
    4  return       r0
    5  int          r0, 6
    6  return       r0
    7  int          r0, 7
    8  return       r0
    switch #0 -1: @5, 0: @7, 1: @2, 2: @3, 3: @3, default: @7
    "#);
    insta::assert_snapshot!(code(text, "sparse"), @r#"
    func #1 int sparse(char, string)  registers 3  "test.n"
    0  jump.eq.int.k r0, 97, @3
    1  jump.eq.int.k r0, 122, @4
    2  jump         @5
    3  return.int   1
    4  return.int   2
    5  text         r2, #0 "one"
    6  eq.text      r2, r1, r2
    7  jump.if      r2, @12
    8  text         r2, #1 "two"
    9  eq.text      r2, r1, r2
    10  jump.if      r2, @12
    11  return.int   4
    12  return.int   3
    "#);
}

#[test]
fn foreach_reads_its_count_once() {
    let text = "
        struct P { int x; }
        int test(List<int> list, string s, Dict<string, int> d, P[] points) {
            int sum = 0;
            foreach (int x in list) { if (x == 3) { continue; } sum += x; }
            foreach (char c in s) { if (c == 'x') { sum += 1; } }
            foreach (string k in d) { sum += d[k]; d[k] += 1; d[k] = 0; }
            foreach (P p in points) { p.x = 1; sum += p.x; }
            return sum;
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #0 int test(List<int>, string, Dict<string, int>, P[])  registers 16  "test.n"
    0  int          r4, 0
    1  list.length  r5, r0
    2  jump.eq.int.k r5, 0, @8
    3  int          r6, 0
    4  list.get.32  r7, r0, r6
    5  jump.eq.int.k r7, 3, @7
    6  add.int      r4, r4, r7
    7  loop.inc.lt.int r6, r5, @4
    8  text.length  r5, r1
    9  jump.eq.int.k r5, 0, @15
    10  int          r6, 0
    11  text.next    r7, r1, r6
    12  jump.ne.int.k r7, 120, @14
    13  add.int.k    r4, r4, 1
    14  loop.lt.int  r6, r5, @11
    15  move         r6, r2
    16  call.native  r6, #0 Dict.keys
    17  list.length  r7, r6
    18  jump.eq.int.k r7, 0, @33
    19  int          r8, 0
    20  list.get.64  r9, r6, r8
    21  move.2       r11, r2, r9
    22  call.native  r11, #1 Dict.get
    23  add.int      r4, r4, r11
    24  move.2       r14, r2, r9
    25  call.native  r14, #1 Dict.get
    26  add.int.k    r13, r14, 1
    27  move.2       r11, r2, r9
    28  call.native  r11, #2 Dict.set
    29  int          r13, 0
    30  move.2       r11, r2, r9
    31  call.native  r11, #2 Dict.set
    32  loop.inc.lt.int r8, r7, @20
    33  int          r5, 1
    34  array.length r6, r3
    35  jump.eq.int.k r6, 0, @43
    36  int          r7, 0
    37  array.get.64 r8, r3, r7
    38  copy         r8, r8
    39  set          r8, .0, r5
    40  get          r9, r8, .0
    41  add.int      r4, r4, r9
    42  loop.inc.lt.int r7, r6, @37
    43  return       r4
    "#);
}

#[test]
fn texts_are_joined_in_one_instruction() {
    let text = "
        class C { }
        string test(int n, C c, Object o) {
            string s = \"\";
            for (int i = 0; i < n; i += 1) { s += \"x\"; s = s + i; }
            return \"a\" + 1 + \"b${n}\" + s + c + o + true;
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #0 string test(int, C, Object)  registers 10  "test.n"
    0  text         r3, #0 ""
    1  int          r4, 0
    2  jump.le.int  r0, r4, @8
    3  text         r5, #1 "x"
    4  concat       r3, r3, r5
    5  word.text    r5, r4, #5 int
    6  concat       r3, r3, r5
    7  loop.inc.lt.int r4, r0, @3
    8  text         r4, #2 "a1b"
    9  word.text    r5, r0, #5 int
    10  move         r6, r3
    11  move         r8, r1
    12  jump.null    r8, @15
    13  call.virtual r8, :2
    14  jump         @16
    15  text         r8, #3 "null"
    16  move         r7, r8
    17  ref.text     r8, r2
    18  text         r9, #4 "true"
    19  concat.many  r4, r4, 6
    20  return       r4
    "#);
}

#[test]
fn an_object_is_made_where_it_goes() {
    let text = "
        class P { int x; int y; public P(int a, int b) { x = a; y = b; } }
        class Q { P p; }
        P test(Q q, int n) {
            q.p = P(n, 2);
            P p = new P(1, n + 1);
            List<int> list = [1, n];
            int[] a = new int[n];
            a[0] = list[1] + list.length();
            list.add(a[1]);
            return p;
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #0 P test(Q, int)  registers 8  "test.n"
    0  new          r2, #9 P
    1  move.2       r4, r2, r1
    2  int          r6, 2
    3  call         r4, #1 P.P
    4  set          r0, .0, r2
    5  new          r2, #9 P
    6  move         r4, r2
    7  int          r5, 1
    8  add.int.k    r6, r1, 1
    9  call         r4, #1 P.P
    10  new.container r3, #28 List<int>
    11  int          r4, 1
    12  list.add     r3, r4
    13  list.add     r3, r1
    14  int.long     r5, r1
    15  new.array    r4, r5, #29 int[]
    16  int          r5, 0
    17  int          r6, 1
    18  list.get.32  r6, r3, r6
    19  list.length  r7, r3
    20  add.int      r6, r6, r7
    21  array.set.32 r4, r5, r6
    22  int          r5, 1
    23  array.get.32 r5, r4, r5
    24  list.add     r3, r5
    25  return       r2
    "#);
    insta::assert_snapshot!(code(text, "P.P"), @r#"
    func #1 void P.P(P, int, int)  constructor  registers 3  "test.n"
    0  set          r0, .0, r1
    1  set          r0, .1, r2
    2  return.void
    "#);
}

#[test]
fn a_field_is_added_to_in_one_instruction_unless_the_value_could_tell() {
    let text = "
        class Sum {
            int n;
            double d;
            long l;
            public int next() { n += 1; return n; }
            public void add(int k, Sum other, int[] a) {
                n = n - k * 2;
                n += a[k];
                d += other.d;
                l -= 5;
                other.n += k / 3;
                other.n += a[k];
                other.n += 7 / k;
                n += other.next();
            }
        }";
    insta::assert_snapshot!(code(text, "Sum.add"), @r#"
    func #1 void Sum.add(Sum, int, Sum, int[])  method  registers 7  "test.n"
    0  mul.int.k    r4, r1, 2
    1  sub.field.int r0, .0, r4
    2  array.get.32 r4, r3, r1
    3  add.field.int r0, .0, r4
    4  get          r4, r2, .1
    5  add.field.double r0, .1, r4
    6  add.field.long.k r0, .2, -5
    7  div.int.k    r4, r1, 3
    8  add.field.int r2, .0, r4
    9  get          r4, r2, .0
    10  array.get.32 r5, r3, r1
    11  add.int      r4, r4, r5
    12  set          r2, .0, r4
    13  get          r4, r2, .0
    14  int          r5, 7
    15  div.int      r5, r5, r1
    16  add.int      r4, r4, r5
    17  set          r2, .0, r4
    18  get          r4, r0, .0
    19  move         r6, r2
    20  call.method  r6, #0 Sum.next
    21  add.int      r4, r4, r6
    22  set          r0, .0, r4
    23  return.void
    "#);
}

#[test]
fn a_loop_over_indices_takes_the_length_in_its_back_edge() {
    let text = "
        int test(int[] a, List<int> l, string s) {
            int sum = 0;
            for (int i = 0; i < a.length(); i += 1) { sum += a[i]; }
            for (int i = 0; i < l.length(); i += 1) { if (i == 3) { continue; } sum += l[i]; }
            int k = 0;
            while (k < s.length()) { sum += s[k]; k += 1; }
            return sum;
        }";
    insta::assert_snapshot!(code(text, "test"), @r#"
    func #0 int test(int[], List<int>, string)  registers 6  "test.n"
    0  int          r3, 0
    1  int          r4, 0
    2  array.length r5, r0
    3  jump.le.int  r5, r4, @7
    4  array.get.32 r5, r0, r4
    5  add.int      r3, r3, r5
    6  loop.inc.lt.array r4, r0, @4
    7  int          r4, 0
    8  list.length  r5, r1
    9  jump.le.int  r5, r4, @14
    10  jump.eq.int.k r4, 3, @13
    11  list.get.32  r5, r1, r4
    12  add.int      r3, r3, r5
    13  loop.inc.lt.list r4, r1, @10
    14  int          r4, 0
    15  text.length  r5, r2
    16  jump.le.int  r5, r4, @20
    17  text.byte    r5, r2, r4
    18  add.int      r3, r3, r5
    19  loop.inc.lt.text r4, r2, @17
    20  return       r3
    "#);
}
