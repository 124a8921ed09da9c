//! How a child is begun.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{self, CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};

use super::{Child, orphans};

/// A program to be run, its arguments and its surroundings; pirn's counterpart of
/// [`std::process::Command`], with what std has in [`CommandExt`] as methods of its own.
///
/// ```
/// use pirn::process::Command;
///
/// # fn main() -> std::io::Result<()> {
/// let output = pirn::run(|| Command::new("echo").args(["warp", "and", "weft"]).output())?;
/// assert_eq!(output.stdout, b"warp and weft\n");
/// # Ok(())
/// # }
/// ```
pub struct Command {
    inner: process::Command,
    /// Which of the three streams were set: others have a default that depends on the call.
    set: [bool; 3],
}

impl Command {
    /// The program with this name or path, with this process's environment and directory.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Command { inner: process::Command::new(program), set: [false; 3] }
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.inner.args(args);
        self
    }

    /// Sets what the program finds as its own name, its argument 0.
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.inner.arg0(arg);
        self
    }

    /// Sets a variable of its environment.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, key: K, value: V) -> &mut Command {
        self.inner.env(key, value);
        self
    }

    /// Sets variables of its environment.
    pub fn envs<I, K, V>(&mut self, vars: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.inner.envs(vars);
        self
    }

    /// Leaves a variable out of its environment.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.inner.env_remove(key);
        self
    }

    /// Leaves all variables out that were not set here.
    pub fn env_clear(&mut self) -> &mut Command {
        self.inner.env_clear();
        self
    }

    /// Sets the directory that it works in.
    pub fn current_dir<P: AsRef<Path>>(&mut self, dir: P) -> &mut Command {
        self.inner.current_dir(dir);
        self
    }

    /// Sets what it reads as its standard input: that of this process, if nobody says, or nothing with
    /// [`output`](Self::output).
    pub fn stdin<T: Into<Stdio>>(&mut self, from: T) -> &mut Command {
        self.inner.stdin(from);
        self.set[0] = true;
        self
    }

    /// Sets where its standard output goes: where that of this process goes, if nobody says, or to
    /// this process with [`output`](Self::output).
    pub fn stdout<T: Into<Stdio>>(&mut self, to: T) -> &mut Command {
        self.inner.stdout(to);
        self.set[1] = true;
        self
    }

    /// Sets where its standard error goes, as [`stdout`](Self::stdout) does.
    pub fn stderr<T: Into<Stdio>>(&mut self, to: T) -> &mut Command {
        self.inner.stderr(to);
        self.set[2] = true;
        self
    }

    /// Sets the user that it runs as.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.inner.uid(id);
        self
    }

    /// Sets the group that it runs as.
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.inner.gid(id);
        self
    }

    /// Puts it into a process group; 0: one of its own, so that a Ctrl-C does not reach it.
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.inner.process_group(group);
        self
    }

    /// Has a closure called in the child before the program begins.
    ///
    /// # Safety
    ///
    /// As for [`CommandExt::pre_exec`]: the closure runs after a fork, where next to nothing may be
    /// called; nothing of pirn.
    pub unsafe fn pre_exec<F>(&mut self, f: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the contract is passed on.
        unsafe { self.inner.pre_exec(f) };
        self
    }

    /// Begins the program as a child.
    ///
    /// # Errors
    ///
    /// When there is no such program, or the system refuses.
    pub fn spawn(&mut self) -> io::Result<Child> {
        orphans::reap();
        self.inner.spawn().map(Child::from)
    }

    /// Runs the program, and collects what it writes.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn) and [`wait_with_output`](Child::wait_with_output).
    pub fn output(&mut self) -> io::Result<Output> {
        let [stdin, stdout, stderr] = self.set;
        if !stdin {
            self.inner.stdin(Stdio::null());
        }
        if !stdout {
            self.inner.stdout(Stdio::piped());
        }
        if !stderr {
            self.inner.stderr(Stdio::piped());
        }
        let child = self.spawn();
        // As it was, for the next call.
        if !stdin {
            self.inner.stdin(Stdio::inherit());
        }
        if !stdout {
            self.inner.stdout(Stdio::inherit());
        }
        if !stderr {
            self.inner.stderr(Stdio::inherit());
        }
        child?.wait_with_output()
    }

    /// Runs the program, and says how it has ended.
    ///
    /// # Errors
    ///
    /// As for [`spawn`](Self::spawn) and [`wait`](Child::wait).
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Puts the program in the place of this process, with all its threads and fibers. Returns only if
    /// that fails.
    pub fn exec(&mut self) -> io::Error {
        self.inner.exec()
    }

    /// The program.
    pub fn get_program(&self) -> &OsStr {
        self.inner.get_program()
    }

    /// Its arguments, without its name.
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.inner.get_args()
    }

    /// What was set or removed in its environment.
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.inner.get_envs()
    }

    /// The directory that it works in, if one was set.
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.inner.get_current_dir()
    }
}

/// The command as a shell would have it.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.inner, f)
    }
}
