// Servers with the same work as the peers in Rust, under the load that the harness names.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

var page = []byte("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\r\nHello, world!")

func serve(service string, connections string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		for {
			connection, err := listener.Accept()
			must(err)
			go answer(connection.(*net.TCPConn), service)
		}
	}()
	load := exec.Command(os.Getenv("ECRU_BENCH_LOAD"), "--load", service, listener.Addr().String(), connections, os.Getenv("ECRU_BENCH_SECOND_CORE"))
	load.Stderr = os.Stderr
	output, err := load.StdoutPipe()
	must(err)
	must(load.Start())
	words := bufio.NewScanner(output)
	words.Scan()
	if service == "idle" {
		count, _ := strconv.Atoi(connections)
		base := residentBytes()
		words.Scan()
		print("memory", (residentBytes()-base)/float64(count-1))
		load.Process.Kill()
		load.Wait()
		return
	}
	before := processSeconds()
	words.Scan()
	used := processSeconds() - before
	must(load.Wait())
	var requests, p99, time float64
	_, err = fmt.Sscanf(strings.TrimSpace(words.Text()), "end %g %g %g", &requests, &p99, &time)
	must(err)
	print("cpu", used*1e9/requests)
	print("p99", p99)
	print("time", time)
}

func answer(connection *net.TCPConn, service string) {
	connection.SetNoDelay(true)
	room := 4096
	if service == "idle" {
		room = 64
	}
	buffer := make([]byte, room)
	filled := 0
	for {
		count, err := connection.Read(buffer[filled:])
		if err != nil || count == 0 {
			return
		}
		if service != "http" {
			connection.Write(buffer[:count])
			continue
		}
		filled += count
		begin, requests := 0, 0
		for {
			end := bytes.Index(buffer[begin:filled], []byte("\r\n\r\n"))
			if end < 0 {
				break
			}
			begin += end + 4
			requests++
		}
		copy(buffer, buffer[begin:filled])
		filled -= begin
		if requests > 0 {
			connection.Write(bytes.Repeat(page, requests))
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func processSeconds() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}
