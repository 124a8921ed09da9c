//! Programs that check themselves, run by the interpreter; also with a collection at each chance.

use super::compile;
use crate::vm::heap::{Config, Heap};
use crate::vm::interp::{Exit, Limits, Machine};
use crate::vm::types::FunctionId;
use crate::vm::verify::{Library, verify};

/// Runs a program's `main`, which returns 0 if all is well. It may not call natives.
fn run(text: &str) {
    let module = compile(text);
    let main = module.main.expect("a main function");
    for stress in [false, true] {
        let verified = verify(module.clone(), &Library).unwrap_or_else(|error| panic!("{error}"));
        let heap = Heap::new(Config { stress, ..Config::default() });
        let mut machine = Machine::new(heap.local(), Limits::default()).expect("room");
        machine.load(verified, &mut |_, _| None).expect("it imports nothing");
        let mut thread = machine.start(FunctionId(main.0), &[]);
        match machine.run(&mut thread) {
            Exit::Done(word) => assert_eq!(word as i32, 0, "stress: {stress}"),
            other => panic!("stress: {stress}: {other:?}"),
        }
    }
}

#[test]
fn operands_keep_the_value_that_they_had_in_their_turn() {
    run("
        int change(out int x) { int old = x; x = x + 1; return old; }
        int two(out int a, int k, out int b) { a = k; b = k + 1; return a + b; }
        int sum(int a, int b, int c) { return a * 100 + b * 10 + c; }
        int main() {
            int x = 5;
            assert(x + change(out x) == 10);
            assert(x == 6);
            assert(change(out x) + x == 13);
            x = x * change(out x);
            assert(x == 49);
            int[] a = new int[3];
            int i = 0;
            a[i] = change(out i) + 7;
            assert(a[0] == 7 && i == 1);
            a[i] += change(out i);
            assert(a[1] == 1 && a[2] == 0 && i == 2);
            x = 3;
            x += change(out x) * 10;
            assert(x == 33);
            int p = 0;
            int q = 0;
            assert(two(out p, 4, out q) == 9 && p == 4 && q == 5);
            p = two(out p, 6, out q);
            assert(p == 13 && q == 7);
            assert(two(out p, 1, out p) == 3 && p == 2);
            int n = 1;
            assert(sum(c = change(out n), a = change(out n), b = n) == 231);
            return 0;
        }");
}

#[test]
fn defaults_see_the_arguments_before_them() {
    run("
        int twice(int n) { return n * 2; }
        int nested(int a, int b = a + 1) { return a * 10 + b; }
        int f(int a, int b = twice(a), int c = nested(b)) { return a * 10000 + b * 1000 + c; }
        class C {
            int n;
            public C(int k, int m = k + 1) { n = k * 10 + m; }
            public int get(int k = n + 1, int m = this.get(1, 2)) { return n * 1000 + k * 10 + m; }
        }
        int main() {
            assert(f(1) == 12000 + 23);
            assert(f(c = 4, a = 2) == 24004);
            assert(f(1, nested(3)) == 10000 + 34000 + 375);
            C c = C(3);
            assert(c.get(1, 1) == 34011);
            assert(c.get() == 34000 + 350 + 34012);
            return 0;
        }");
}

#[test]
fn every_way_out_runs_every_finally_once() {
    run("
        class Log { int n; public void add(int k) { n = n * 10 + k; } }
        int leave(Log log, int how) {
            for (int i = 0; i < 2; i += 1) {
                try {
                    try {
                        if (how == 0) { continue; }
                        if (how == 1) { break; }
                        if (how == 2) { return log.n + 7; }
                        if (how == 3) { throw IOException(\"x\"); }
                        if (how == 4) { int zero = 0; log.n = 1 / zero; }
                        if (how == 5) { Log none = null; none.add(1); }
                    } catch (IOException e) {
                        log.add(5);
                        if (i == 0) { continue; }
                        throw;
                    } catch (DivByZeroException e) {
                        e = null;
                        log.add(6);
                        throw;
                    } finally { log.add(1); }
                    log.add(2);
                } finally { log.add(3); }
                log.add(4);
            }
            return 9;
        }
        int outcome(int how) {
            Log log = Log();
            int result = 0;
            try { result = leave(log, how); }
            catch (IOException e) { assert(e.message == \"x\"); result = 5; }
            catch (DivByZeroException e) { result = 6; }
            catch (Exception e) { result = 8; }
            return log.n * 10 + result;
        }
        int main() {
            assert(outcome(0) == 13139);
            assert(outcome(1) == 139);
            assert(outcome(2) == 137);
            assert(outcome(3) == 5135135);
            assert(outcome(4) == 6136);
            assert(outcome(5) == 138);
            assert(outcome(6) == 123412349 );
            return 0;
        }");
}

#[test]
fn a_result_waits_while_finally_blocks_run() {
    run("
        struct P { int x; }
        int number(out int seen) { int n = 1; try { return n; } finally { n = 2; seen = n; } }
        string text() { string s = \"a\"; try { return s + \"b\"; } finally { s = \"c\"; } }
        P point() { P p; p.x = 4; try { return p; } finally { p.x = 5; } }
        int deep(int n) {
            try {
                while (true) {
                    try { if (n > 3) { return n; } n += 1; continue; }
                    finally { foreach (char c in \"ab\") { if (c == 'b') { break; } n += 1; } }
                }
            } finally { n = 100; }
        }
        int main() {
            int seen = 0;
            assert(number(out seen) == 1 && seen == 2);
            assert(text() == \"ab\");
            assert(point().x == 4);
            assert(deep(0) == 4);
            assert(deep(10) == 10);
            return 0;
        }");
}

#[test]
fn switches_find_their_case() {
    run("
        enum Dir { N, E = 4, S; }
        int dense(int n) {
            switch (n) { case -2: return 1; case -1, 0: return 2; case 1: return 3; case 3: return 4; }
            return 9;
        }
        int later(long n) {
            switch (n) {
                case 1: return 1; case 2: return 2; case 3: return 3; case 4: return 4;
                default: return 0;
            }
        }
        int text(string s) { switch (s) { case \"a\", \"b\": return 1; case \"\": return 2; default: return 3; } }
        int dir(Dir d) { switch (d) { case Dir.N: return 1; case Dir.S: return 2; default: return 3; } }
        int real(double d) { switch (d) { case 0.5: return 1; case 2.0: return 2; } return 3; }
        int main() {
            assert(dense(-2) == 1 && dense(-1) == 2 && dense(0) == 2 && dense(1) == 3);
            assert(dense(2) == 9 && dense(3) == 4 && dense(4) == 9 && dense(-3) == 9);
            assert(dense(-2147483647 - 1) == 9 && dense(2147483647) == 9);
            assert(later(2) == 2 && later(0) == 0 && later(4294967297) == 0 && later(-1) == 0);
            assert(text(\"b\") == 1 && text(null) == 2 && text(\"c\") == 3);
            assert(dir(Dir.N) == 1 && dir(Dir.S) == 2 && dir(Dir.E) == 3);
            assert(real(0.5) == 1 && real(2.0) == 2 && real(3.0) == 3);
            int n = 0;
            while (n < 10) { switch (n) { case 3: n += 5; continue; case 9: break; } n += 1; }
            assert(n == 10);
            return 0;
        }");
}

#[test]
fn objects_strings_and_containers_hold_what_they_were_given() {
    run("
        interface Named { string name(); }
        class Base implements Named {
            int n;
            public Base(int k) { n = k; }
            virtual public string name() { return \"base\" + n; }
            public int plus(int k) { return n + k; }
        }
        class Sub : Base { public Sub() { super(7); } public string name() { return \"sub\" + n; } }
        struct Inner { int a; string s; }
        struct Outer { Inner i; int b; }
        class Holder { Outer o; List<int> l; long total; }
        Outer changed(Outer o) { o.i.a = 9; return o; }
        int main() {
            Named n = Sub();
            Base b = n as Base;
            assert(n.name() == \"sub7\" && b.name() == \"sub7\" && Base(1).name() == \"base1\");
            func<string> f = n.name;
            func<int, int> g = b.plus;
            assert(f() == \"sub7\" && g(3) == 10);
            Object o = 5;
            assert(o as int == 5 && \"\" + o == \"5\");
            Outer x;
            x.i.a = 1;
            Outer y = x;
            y.i.a = 2;
            x = changed(y);
            assert(x.i.a == 9 && y.i.a == 2);
            Outer[] all = new Outer[2];
            all[0].i.a = 3;
            all[1] = all[0];
            all[1].i.a += 4;
            assert(all[0].i.a == 3 && all[1].i.a == 7);
            foreach (Outer each in all) { each.b = 1; }
            assert(all[0].b == 0);
            Holder h = new Holder{l: [1, 2, 3], total: 10};
            h.o = x;
            h.o.i.s += \"x\";
            h.total += h.l[1];
            h.total -= 5;
            h.l[1] += 10;
            h.l.add(4);
            assert(h.total == 7 && h.l[1] == 12 && h.l.length() == 4 && x.i.s == \"\");
            byte[] bytes = new byte[2];
            bytes[0] = (300 as byte);
            bytes[0] += 100;
            assert(bytes[0] == -112);
            string s = \"\";
            foreach (char c in \"a\u{e9}z\") { s = s + c + \".\"; }
            assert(s == \"a.\u{e9}.z.\" && s.length() == 7 && s[0] == 97);
            Base none = null;
            assert(\"\" + none == \"null\");
            try { none.plus(1); assert(false); } catch (NullPointerException e) { }
            try { h.l[4] = 1; assert(false); } catch (IndexOutOfBoundsException e) { }
            return 0;
        }");
}

#[test]
fn numbers_convert_and_compare_as_their_types_say() {
    run("
        int main() {
            uint u = 4000000000;
            long l = u;
            int i = u as int;
            assert(l == 4000000000 && i == -294967296 && u > 3000000000 && u / 2 == 2000000000);
            ulong big = 18446744073709551615;
            assert(big > 1 && big / 2 == 9223372036854775807 && big % 10 == 5);
            short s = -2;
            ubyte ub = s as ubyte;
            assert(ub == 254 && (ub as byte) == -2);
            double d = -2.5;
            assert(d as int == -2 && d as uint == 0 && (1e30 as int) == 2147483647);
            float f = 0.5f;
            assert(f + 1 == 1.5f && f < 1.0f && !(f > 0.5f));
            double nan = d - d;
            try { nan = nan / nan; assert(false); } catch (DivByZeroException e) { }
            char c = 'a';
            assert(c < 'b' && (c as int) + 1 == 98 && (98 as char) == 'b');
            assert(-7 / 2 == -3 && -7 % 2 == -1);
            int most = 2147483647;
            assert(most + 1 == -2147483647 - 1);
            assert(i - 100000 == -295067296 && 5 - i > 0 && i * 70000 != 0);
            bool x = i < 0;
            bool y = !x || u == 4000000000;
            assert(x && y && x == true && (x == y) == !false);
            return 0;
        }");
}

#[test]
fn loops_go_round_as_often_as_they_say() {
    run("
        int main() {
            int n = 0;
            for (int i = 0; i < 5; i += 1) { n += i; }
            for (int i = 5; i > 0; i -= 1) { n += i; }
            for (int i = 5; i >= 0; i -= 1) { n += i; }
            for (long i = 0; i < 3; i += 1) { n += 100; }
            for (int i = 3; i < 3; i += 1) { n += 1000; }
            assert(n == 340);
            int[] a = [1, 2, 3];
            List<int> l = [4, 5];
            string s = \"abc\";
            for (int i = 0; i < a.length(); i += 1) { n += a[i]; }
            for (int i = 0; i < l.length(); i += 1) { if (i < 3) { l.add(i); } n += l[i]; }
            for (int i = 0; i < s.length(); i += 1) { n += s[i] - 96; }
            assert(n == 340 + 6 + 9 + 3 + 6 && l.length() == 5);
            int k = 0;
            try { while (k < l.length()) { if (k == 2) { l = null; } k += 1; } assert(false); }
            catch (NullPointerException e) { }
            assert(k == 3);
            double d = 0.0;
            while (d < 2.5) { d += 1.0; }
            do { d -= 0.5; } while (d >= 1.0);
            assert(d == 0.5);
            return 0;
        }");
}
