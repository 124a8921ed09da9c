//! A host with a script: native functions, limits, and a handle that stops it.
//!
//! The script computes prices; the host gives it a stock, asks it questions, and does not trust it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use pirn::vm::{Call, Error, Exception, Host, Object, ScriptError, Vm, compile};

const SCRIPT: &str = r#"
    import io;

    native int stock(string article);
    native Object ledger();
    native void book(Object ledger, string article, int count);
    native int total(List<string> articles, func<int, string> price);

    int price(string article) {
        if (article == "apple") { return 3; }
        return article.length() * 2;
    }

    int order(string article, int count) {
        if (stock(article) < count) {
            throw Exception("there are no ${count} ${article}s");
        }
        book(ledger(), article, count);
        return count * price(article);
    }

    int all(List<string> articles) { return total(articles, price); }

    void forever() {
        while (true) {
            try { price("x"); } catch (Exception e) { io.print("not caught"); }
        }
    }

    void hungry() {
        List<string> l = {};
        while (true) { l.add("more " + l.length()); }
    }
"#;

fn main() -> Result<(), Error> {
    let program = compile(SCRIPT)?;
    println!("the script has: {}", program.functions().collect::<Vec<_>>().join(", "));

    let ledger = Host::new(Mutex::new(BTreeMap::<String, i32>::new()));
    let mine = ledger.clone();
    let mut vm = Vm::builder()
        .heap_limit(4 << 20)
        .call_depth(1000)
        .native("stock", |article: &str| match article {
            "apple" => Ok(10),
            "pear" => Ok(2),
            other => Err(ScriptError::of(Exception::Io, format!("no shelf for {other:?}"))),
        })
        .native("ledger", move || ledger.clone())
        .native("book", |ledger: Host<Mutex<BTreeMap<String, i32>>>, article: &str, n: i32| {
            *ledger.lock().unwrap().entry(article.into()).or_default() += n;
        })
        .reentrant("total", |call: &mut Call<'_>, articles: Vec<String>, price: Object| {
            let prices = articles.iter().map(|article| call.call_value::<i32>(&price, (article,)));
            prices.sum::<Result<i32, Error>>()
        })
        .load(&program)?;

    let cost: i32 = vm.call("order", ("apple", 4))?;
    println!("four apples cost {cost}; the ledger: {:?}", mine.lock().unwrap());
    let sum: i32 = vm.call("all", (["apple", "pear", "fig"].as_slice(),))?;
    println!("one of each: {sum}");

    for article in ["pear", "plum"] {
        match vm.call::<i32>("order", (article, 5)) {
            Err(Error::Script(error)) => {
                println!("{article}: {} in {}", error, error.backtrace.join(" < "));
            }
            other => println!("{article}: {other:?}"),
        }
    }

    match vm.call::<i32>("order", ("apple",)) {
        Err(error) => println!("{error}"),
        Ok(_) => unreachable!("an argument is missing"),
    }

    // Another thread may end the script; it cannot catch that.
    let stop = vm.stop_handle();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        stop.stop();
    });
    println!("forever: {}", vm.call::<()>("forever", ()).unwrap_err());
    timer.join().unwrap();

    // So does an end of the fuel, which needs no thread and comes always at the same place.
    vm.set_fuel(Some(10_000));
    println!("forever: {}", vm.call::<()>("forever", ()).unwrap_err());
    vm.set_fuel(None);

    // And the heap has its limit.
    println!("hungry: {}", vm.call::<()>("hungry", ()).unwrap_err());

    // The machine is as good as before.
    println!("five apples cost {}", vm.call::<i32>("order", ("apple", 5))?);
    Ok(())
}
