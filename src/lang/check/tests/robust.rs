use super::harness::{program, run};

/// A program that has a bit of everything.
const PROGRAM: &str = r#"
import io;
using Row = List<int>;
enum Dir { N, E = 4, S; public int twice() { return this.more(2) + this; } public int more(int n) { return n; } }
struct In { int v; Row row; }
struct P { public int x; In in_; func<int, int> f; }
interface Shape { double area(int n); string toString(); }
class Base implements Shape {
    protected int n; private P p; public string name;
    public Base(int k, string s = "a${k}") { n = k; name = s; p = {k, {v: 1}}; p.in_.v += 1; }
    public virtual double area(int n) { return n * 1.5 + this.n; }
    public static int make(int a, int b = a + 1) { return a * b; }
    public void swap(out int a, out string s) { int t = a; a = n; n = t; s += t; }
}
class Derived : Base {
    public int Derived() { super(1, s = "x"); return 0; }
    public double area(int n) { return -n as byte; }
    public int equals(Object o) { Derived d = o as Derived; return d == null || d.n != n; }
}
class Fault : IOException { public int code; public Fault(int c) { super("fault " + c); code = c; } }
int apply(func<int, int> f, int x) { return f(x); }
int apply(func<double, double> f, double x) { return f(x) as int; }
int inc(int x) { return x + 1; }
int main() {
    Shape s = Derived(); Base b = s as Base; Object o = s; int a = 5; string t = null; Row r = [1, 2, 3];
    b.swap(out a, out t); const long big = -9223372036854775808; ubyte u = 255; float f = 1.5f;
    Dict<string, P> d = {"a": {1}, "b": new P{x: 2}}; P[] ps = new P[3]; ps[0].in_.v = 3; d["c"] = ps[0];
    foreach (string k in d) { io.print(k + d[k].x + ", " + r); continue; }
    for (int i = 0, j = 1; i < 3 && !(j > 9); i += 1) { j *= 2; if (i == 1) { break; } else { a -= j % 3; } }
    switch (a) { case 1, 2: a = 3; case Dir.E: break; default: a = Dir.S.twice(); }
    switch (t) { case "x": t = "y"; } switch ('c') { case 'c': } switch (f) { case 1.5: f /= 2.0; }
    try { throw Fault(3); } catch (Fault e) { a = e.code; try { throw; } finally { a += 1; } }
    catch (Exception e) { io.print(e.message); } finally { u += 1; }
    do { a = apply(inc, a) + apply(b.hashed, 1) ; } while (a < 0);
    func<int, int> g = inc; g = Base.make; assert(g != null); long l = a + 3000000000 * u;
    return (l as int) + r.indexOf(3) + "abc".substring(1, 2).length() + new int[a][0] + o.getHashCode();
}
"#;

/// A cheap generator of numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

/// The text cut into words, numbers, strings and single signs.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if first.is_alphanumeric() || first == '_' {
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len())
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |at| at + 2)
        } else {
            first.len_utf8()
        };
        let (piece, behind) = rest.split_at(end);
        if !piece.trim().is_empty() {
            pieces.push(piece);
        }
        rest = behind;
    }
    pieces
}

#[test]
fn whatever_a_program_says_checking_it_ends_with_a_tree_or_an_error() {
    let original = pieces(PROGRAM);
    let mut random = Random(7);
    let mut legal = 0;
    let rounds = if cfg!(debug_assertions) { 1500 } else { 20_000 };
    for _ in 0..rounds {
        let mut changed = original.clone();
        for _ in 0..1 + random.below(4) {
            let (at, from) = (random.below(changed.len()), random.below(original.len()));
            match random.below(4) {
                0 => drop(changed.remove(at)),
                1 => changed.insert(at, original[from]),
                2 => changed[at] = original[from],
                _ => {
                    let end = (from + random.below(8)).min(original.len());
                    let end_at = (at + random.below(8)).min(changed.len());
                    changed.splice(at..end_at, original[from..end].iter().copied());
                }
            }
        }
        let (tree, _) = run(&program(&[("main", &changed.join(" "))]));
        legal += usize::from(tree.is_some());
    }
    assert!(legal < rounds);
}

#[test]
fn many_names_and_many_errors_do_not_take_long() {
    let many = 4000;
    let mut source = String::new();
    for n in 0..many {
        source += &format!("using A{n} = C{n};\n");
    }
    for n in 0..many {
        let base = if n == 0 { String::new() } else { format!(" : A{}", n - 1) };
        source += &format!("class C{n}{base} {{ public virtual void m{}() {{ }} }}\n", n % 7);
    }
    source += "int main() {\n";
    for n in 0..many {
        source += &format!("int v{n} = w{n} + v{};\n", n / 2);
    }
    source += "return 0; }";
    let (tree, found) = run(&program(&[("main", &source)]));
    assert!(tree.is_none());
    // Each `w` is unknown, and the first variable in its own initialiser; and one class is the first
    // with too many above it.
    assert_eq!(found.counts().0, many + 2);
}
