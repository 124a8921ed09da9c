//! Two fibers take turns: the program of the first article.
//!
//! Task A yields three times, task B five times with a local that survives every switch.

use pirn::thread;

fn main() {
    pirn::run(|| {
        let a = thread::spawn(|| {
            for step in 0..3 {
                println!("[A] step {step}");
                thread::yield_now();
            }
            println!("[A] done");
        });
        let b = thread::spawn(|| {
            let mut local = 0;
            for step in 0..5 {
                println!("[B] step {step}, local={local}");
                local += 10;
                thread::yield_now();
            }
            println!("[B] done");
        });
        a.join().unwrap();
        b.join().unwrap();
        println!("all done");
    });
}
