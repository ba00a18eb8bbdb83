//! Task-locals: values that a section of code binds for the code it calls and the tasks it spawns.
#![expect(unsafe_code, reason = "bindings live on the stacks of the code that binds")]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use super::current;
#[cfg(feature = "sim")]
use super::header::Header;

/// A key of [`task_local!`](crate::task_local). Its address is its identity.
///
/// # Examples
/// ```
/// ecru::task_local! {
///     static REQUEST: u64;
/// }
///
/// ecru::run(|| {
///     REQUEST.scope(7, || {
///         // Tasks of a scope see what was bound where the scope was opened.
///         ecru::scope(|s| {
///             s.spawn(|| REQUEST.with(|request| assert_eq!(*request, 7)));
///         });
///     });
/// });
/// ```
pub struct LocalKey<T: 'static> {
    /// Keeps two keys from sharing an address.
    _identity: UnsafeCell<u8>,
    _value: PhantomData<fn() -> T>,
}

// SAFETY: D0: the cell exists only for its address, and is never accessed.
unsafe impl<T> Sync for LocalKey<T> {}

impl<T> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// A binding, on the stack of the code that made it.
struct Binding {
    key: *const (),
    value: *const (),
    outer: *const Binding,
}

impl<T: Sync + 'static> LocalKey<T> {
    #[doc(hidden)]
    #[must_use]
    pub const fn new() -> LocalKey<T> {
        LocalKey { _identity: UnsafeCell::new(0), _value: PhantomData }
    }

    /// Binds `value` while `body` runs. [`with`](LocalKey::with) then yields this value in `body`
    /// and in the tasks of every scope that `body` opens.
    ///
    /// # Examples
    /// ```
    /// ecru::task_local! {
    ///     static REQUEST: u32;
    /// }
    ///
    /// ecru::run(|| {
    ///     let seen = REQUEST.scope(7, || ecru::scope(|s| s.spawn(|| REQUEST.get()).join()));
    ///     assert_eq!(seen.unwrap(), 7);
    /// });
    /// ```
    pub fn scope<R>(&'static self, value: T, body: impl FnOnce() -> R) -> R {
        struct Restore(*const ());
        impl Drop for Restore {
            fn drop(&mut self) {
                current::set_bindings(self.0);
            }
        }
        let _frame = crate::coroutine::OpenFrame::enter();
        let outer = current::bindings_now();
        let binding = Binding {
            key: ptr::from_ref(self).cast(),
            value: ptr::from_ref(&value).cast(),
            outer: outer.cast(),
        };
        let _restore = Restore(current::set_bindings(ptr::from_ref(&binding).cast()));
        body()
    }

    /// Calls `f` with the innermost value bound to this key.
    ///
    /// # Panics
    /// Panics if no value is bound. [`try_with`](LocalKey::try_with) returns `None` instead.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Some(result) => result,
            None => panic!(
                "no value is bound to this task-local here; bind one with `KEY.scope(value, || ..)`"
            ),
        }
    }

    /// Calls `f` with the innermost value bound to this key, or returns `None` if no value is
    /// bound.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        // A bare coroutine that is suspended in `f` may outlive the binding, which is in one of its
        // resumer's frames.
        let _frame = crate::coroutine::OpenFrame::enter();
        self.find().map(f)
    }

    /// Returns a copy of the innermost value bound to this key.
    ///
    /// # Panics
    /// Panics if no value is bound.
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(|value| *value)
    }

    /// Returns a copy of the innermost value that is bound to this key in a task.
    ///
    /// # Safety
    /// T5: the task has not ended, and it does not run on another thread.
    #[cfg(feature = "sim")]
    pub(crate) unsafe fn bound_in(&'static self, task: &Header) -> Option<T>
    where
        T: Copy,
    {
        self.find_in(task.bindings.get()).copied()
    }

    fn find(&'static self) -> Option<&'static T> {
        self.find_in(current::bindings_now())
    }

    fn find_in(&'static self, bindings: *const ()) -> Option<&'static T> {
        let key = ptr::from_ref(self).cast::<()>();
        let mut at = bindings.cast::<Binding>();
        // SAFETY: T5: bindings are on the stacks of frames that are open around the running code,
        // or around the scope of its task. All of them outlive the running code. The reference
        // leaves this module only inside `with`, and as a copy.
        while let Some(binding) = unsafe { at.as_ref() } {
            if binding.key == key {
                // SAFETY: T5: the key's identity determines the value's type.
                return Some(unsafe { &*binding.value.cast::<T>() });
            }
            at = binding.outer;
        }
        None
    }
}

/// Declares task-locals: `task_local! { static NAME: Type; }`. Each is a
/// [`task::LocalKey`](crate::task::LocalKey).
///
/// A value is bound with [`LocalKey::scope`](crate::task::LocalKey::scope). The code that runs
/// inside sees it, including the tasks of every scope opened there, on any worker. Unlike a
/// thread-local, the value belongs to the task: tasks that share a thread do not see each other's
/// values. As in [`thread_local!`], the last semicolon may be left out.
///
/// # Examples
/// ```
/// ecru::task_local! {
///     /// The number of the request that is being answered.
///     pub static REQUEST: u32;
///     static USER: String
/// }
///
/// let greeting = USER.scope("ann".into(), || USER.with(|user| format!("hello {user}")));
/// assert_eq!(greeting, "hello ann");
/// assert!(REQUEST.try_with(|_| ()).is_none());
/// ```
#[macro_export]
macro_rules! task_local {
    () => {};
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty);+ $(;)?) => {
        $($(#[$attribute])* $visibility static $name: $crate::task::LocalKey<$type> = $crate::task::LocalKey::new();)+
    };
}
