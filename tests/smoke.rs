use std::time::{Duration, Instant};

#[test]
fn root_returns() {
    assert_eq!(ecru::run(|| 42), 42);
}
#[test]
fn spawn_join() {
    ecru::run(|| {
        let v = vec![1, 2, 3];
        let s = ecru::scope(|s| s.spawn(|| v.iter().sum::<i32>()).join().unwrap());
        assert_eq!(s, 6);
    });
}
#[test]
fn sleeps() {
    ecru::run(|| {
        let t = Instant::now();
        ecru::scope(|s| {
            for _ in 0..1000 {
                s.spawn(|| ecru::sleep(Duration::from_millis(20)).unwrap());
            }
        });
        assert!(t.elapsed() < Duration::from_millis(200), "{:?}", t.elapsed());
    });
}
fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    ecru::scope(|s| {
        let a = s.spawn(|| fib(n - 1));
        let b = fib(n - 2);
        a.join().unwrap() + b
    })
}
#[test]
fn fibs() {
    for w in [1, 2] {
        let r = ecru::Runtime::builder().workers(w).build().unwrap();
        let t = Instant::now();
        assert_eq!(r.run(|| fib(20)), 6765);
        println!("{w}: {:?}", t.elapsed());
    }
}
#[test]
fn echo() {
    use std::io::{Read, Write};
    ecru::run(|| {
        let l = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let a = l.local_addr().unwrap();
        ecru::scope(|s| {
            s.spawn(|| {
                let (mut c, _) = l.accept().unwrap();
                let mut b = [0; 5];
                c.read_exact(&mut b).unwrap();
                c.write_all(&b).unwrap();
            });
            let mut c = ecru::net::TcpStream::connect(a).unwrap();
            c.write_all(b"hello").unwrap();
            let mut b = [0; 5];
            c.read_exact(&mut b).unwrap();
            assert_eq!(&b, b"hello");
        });
    });
}
#[test]
fn timeout_read() {
    use std::io::Read;
    ecru::run(|| {
        let l = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let a = l.local_addr().unwrap();
        let mut c = ecru::net::TcpStream::connect(a).unwrap();
        let r = ecru::timeout(Duration::from_millis(5), || c.read(&mut [0; 5]));
        assert!(r.is_err());
    });
}
#[test]
fn panics() {
    let r = std::panic::catch_unwind(|| {
        ecru::run(|| {
            ecru::scope(|s| {
                s.spawn(|| panic!("boo"));
            })
        })
    });
    let m = r.unwrap_err();
    assert_eq!(m.downcast_ref::<String>().unwrap(), "a task of this scope panicked: boo");
}
