//! Task-locals: values that a piece of code binds for what it calls, and for the tasks that it spawns.
#![expect(unsafe_code, reason = "bindings live on the stacks of those who bind")]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

use super::current;

/// A key of [`task_local!`](crate::task_local). Its address is its identity.
pub struct LocalKey<T: 'static> {
    /// So that two keys never share an address.
    _identity: UnsafeCell<u8>,
    _value: PhantomData<fn() -> T>,
}

// SAFETY: D0: the cell is only there for its address and never accessed.
unsafe impl<T> Sync for LocalKey<T> {}

impl<T> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").finish_non_exhaustive()
    }
}

/// One binding, on the stack of whoever made it.
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

    /// Binds `value` while `body` runs: it is what [`with`](LocalKey::with) gives in `body`, and in the tasks of every scope
    /// that `body` opens.
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

    /// Gives `f` the innermost value bound to this key.
    ///
    /// # Panics
    /// When none is bound; [`try_with`](LocalKey::try_with) does not.
    #[track_caller]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match self.try_with(f) {
            Some(result) => result,
            None => panic!(
                "no value is bound to this task-local here; bind one with `KEY.scope(value, || ..)`"
            ),
        }
    }

    /// Gives `f` the innermost value bound to this key, if there is one.
    pub fn try_with<R>(&'static self, f: impl FnOnce(&T) -> R) -> Option<R> {
        // A bare coroutine that is suspended in `f` may outlive the binding, which is in a frame of its resumer.
        let _frame = crate::coroutine::OpenFrame::enter();
        self.find().map(f)
    }

    /// A copy of the innermost value bound to this key.
    ///
    /// # Panics
    /// When none is bound.
    #[track_caller]
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.with(|value| *value)
    }

    fn find(&'static self) -> Option<&'static T> {
        let key = ptr::from_ref(self).cast::<()>();
        let mut at = current::bindings_now().cast::<Binding>();
        // SAFETY: T5: bindings are on the stacks of frames that are open around the running code, or around the scope that
        // its task belongs to, all of which outlive it. The reference leaves this module only inside `with`.
        while let Some(binding) = unsafe { at.as_ref() } {
            if binding.key == key {
                // SAFETY: T5, and the key's identity says what type it is.
                return Some(unsafe { &*binding.value.cast::<T>() });
            }
            at = binding.outer;
        }
        None
    }
}

/// Declares task-locals: `task_local! { static NAME: Type; }`, each a [`task::LocalKey`](crate::task::LocalKey).
///
/// A value is bound with [`LocalKey::scope`](crate::task::LocalKey::scope) and seen by what runs inside, including the tasks
/// of every scope opened there, on whichever worker. Unlike a thread-local it belongs to the task: tasks that take turns on a
/// thread do not see each other's. As in [`thread_local!`], the last semicolon may be left out.
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
