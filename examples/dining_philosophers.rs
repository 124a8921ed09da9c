//! Five philosophers, five forks, and the deadlock that they are famous for.
//!
//! Each takes the fork at the left, lets the others move, and waits for the one at the right. Nobody
//! will ever eat: the runtime says so, and names the cycle.

use pirn::sync::Mutex;
use pirn::thread;

const NAMES: [&str; 5] = ["Baruch", "Gilles", "Karl", "Friedrich", "Michel"];

fn main() {
    let runtime = pirn::Runtime::new().expect("the default settings are valid");
    let dinner = runtime.run(|| {
        let forks = [const { Mutex::new(()) }; NAMES.len()];
        thread::scope(|s| {
            for (seat, name) in NAMES.into_iter().enumerate() {
                let (left, right) = (&forks[seat], &forks[(seat + 1) % NAMES.len()]);
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(s, move || {
                        let _left = left.lock().unwrap();
                        thread::yield_now();
                        let _right = right.lock().unwrap();
                        println!("{name} eats");
                    })
                    .expect("five stacks are to be had");
            }
        });
    });
    match dinner {
        Ok(()) => println!("everybody has eaten"),
        Err(deadlock) => println!("{deadlock}"),
    }
}
