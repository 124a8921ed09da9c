//! The panic hook says which fiber panicked.

use std::panic;
use std::sync::Once;

use super::carrier::Carrier;
use super::task::Task;

/// Puts a line before what the present hook prints, for panics on a fiber.
///
/// Once a process; a hook that the program sets later replaces it.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if let Some(task) = Carrier::current().and_then(Carrier::current_task) {
                announce(task);
            }
            next(info);
        }));
    });
}

fn announce(task: &Task) {
    let mut name = String::new();
    let _ = task.describe(&mut name);
    let number = Carrier::current().map_or(0, Carrier::number);
    eprintln!("\npirn: {name}, panicked on carrier {number}:");
}
