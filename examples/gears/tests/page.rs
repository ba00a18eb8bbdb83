//! The exact text of the page, with any number of workers and on either driver.

use ecru::{DriverKind, Runtime};

fn page(workers: usize, driver: DriverKind) -> String {
    let runtime = Runtime::builder().workers(workers).driver(driver).build().expect("it starts");
    let mut text = Vec::new();
    runtime.run(|| gears::write(&mut text)).expect("nothing on the page fails");
    String::from_utf8(text).expect("it is text")
}

#[test]
fn the_gears_page_says_what_it_should() {
    assert_eq!(page(1, DriverKind::Auto), include_str!("page.txt"));
}

#[test]
fn the_gears_page_is_the_same_on_two_workers() {
    assert_eq!(page(2, DriverKind::Auto), include_str!("page.txt"));
}

#[test]
fn the_gears_page_is_the_same_on_readiness() {
    assert_eq!(page(2, DriverKind::Poll), include_str!("page.txt"));
}
