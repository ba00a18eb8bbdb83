// The suite of shapes: the programs of src/placement, described by words of the command line.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	_ "unsafe" // for go:linkname
)

// As in src/placement/shape.rs.
const (
	poolTasks   = 8
	room        = 16
	late        = 10 * time.Millisecond
	burst       = 20
	pause       = time.Millisecond
	stages      = 4
	pairCount   = 8
	actorCount  = 64
	mailbox     = 8
	senders     = 4
	outerTasks  = 32
	innerTasks  = 4
	nap         = 200 * time.Microsecond
	foreign     = 200 * time.Millisecond
	besideNap   = time.Millisecond
	connections = 1000
	request     = 64
)

// The counts of one processor of the scheduler, on cache lines of its own.
type slot struct {
	hits, checksum uint64
	_              [112]byte
}

var slots [256]slot

//go:linkname procPin runtime.procPin
func procPin() int

//go:linkname procUnpin runtime.procUnpin
func procUnpin()

// Counts an operation for the processor that runs the calling goroutine, and combines its result.
func hit(value uint64) {
	own := &slots[procPin()]
	own.hits++
	own.checksum ^= value
	procUnpin()
}

func spin(state uint64, steps uint64) uint64 {
	for range steps {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
	}
	return state
}

// A shape, which may run at the same time as others.
type shape struct {
	name         string
	count, steps uint64
	word         string
}

func (s shape) operations() uint64 {
	switch s.name {
	case "pairs":
		return pairCount * s.count
	case "nested":
		return outerTasks * s.count * innerTasks
	}
	return s.count
}

func (s shape) hits() uint64 {
	if s.name == "pipeline" {
		return stages * s.count
	}
	return s.operations()
}

// The exclusive or of the values passed to hit. Spinning is linear, so one job checks all of them.
func (s shape) checksum() uint64 {
	if s.name == "words" {
		value, err := strconv.ParseUint(s.word, 16, 64)
		must(err)
		return value
	}
	var all, hot uint64
	for number := uint64(1); number <= s.operations(); number++ {
		if s.name == "actors" && actorOf(number) == 0 {
			hot ^= number
		} else {
			all ^= number
		}
	}
	steps := s.steps
	if s.name == "pipeline" {
		steps *= stages
	}
	return spin(all, steps) ^ spin(hot, 10*s.steps)
}

func placement(descriptions []string) {
	shapes := make([]shape, len(descriptions))
	for index, description := range descriptions {
		words := strings.Fields(description)
		s := shape{name: words[0]}
		s.count, _ = strconv.ParseUint(words[1], 10, 64)
		s.steps, _ = strconv.ParseUint(words[2], 10, 64)
		if len(words) > 3 {
			s.word = words[3]
		}
		shapes[index] = s
	}
	switch shapes[0].name {
	case "accept":
		accept(shapes[0])
		return
	case "blocked":
		blocked(shapes[0])
		return
	case "words":
		wordsFile()
	}
	before := now()
	var all sync.WaitGroup
	for _, s := range shapes {
		all.Go(s.work)
	}
	all.Wait()
	before.report(shapes)
}

func (s shape) work() {
	switch s.name {
	case "pool":
		s.pool()
	case "pipeline":
		s.pipeline()
	case "pairs":
		s.pairs()
	case "map":
		s.parallelMap()
	case "nested":
		s.nested()
	case "short":
		s.short()
	case "actors":
		s.actors()
	case "words":
		s.words()
	default:
		panic("no shape " + s.name)
	}
}

// The state of the process at one moment.
type moment struct {
	at    time.Time
	cpu   float64
	waits int64
	slots [256]slot
}

func now() moment {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return moment{time.Now(), processSeconds(), usage.Nvcsw, slots}
}

// Prints the metrics of the work since this moment.
func (before moment) report(shapes []shape) {
	after := now()
	var operations, expectedHits, expected, hits, checksum, busiest uint64
	for _, s := range shapes {
		operations += s.operations()
		expectedHits += s.hits()
		expected ^= s.checksum()
	}
	for index := range slots {
		own := after.slots[index].hits - before.slots[index].hits
		hits += own
		busiest = max(busiest, own)
		checksum ^= after.slots[index].checksum ^ before.slots[index].checksum
	}
	if hits != expectedHits || checksum != expected {
		fmt.Fprintf(os.Stderr, "%d hits for %d, checksum %x for %x\n", hits, expectedHits, checksum, expected)
		os.Exit(1)
	}
	print("time", float64(after.at.Sub(before.at).Nanoseconds())/float64(operations))
	print("cpu", (after.cpu-before.cpu)*1e9/float64(operations))
	print("busiest", float64(busiest)*100/float64(hits))
	print("wake-ups", float64(after.waits-before.waits)*1000/float64(operations))
}

func (s shape) pool() {
	jobs := make(chan uint64, room)
	var tasks sync.WaitGroup
	for range poolTasks {
		tasks.Go(func() {
			for number := range jobs {
				hit(spin(number, s.steps))
			}
		})
	}
	if s.word == "late" {
		time.Sleep(late)
	}
	for number := uint64(1); number <= s.count; number++ {
		jobs <- number
		if s.word == "trickling" && number%burst == 0 {
			time.Sleep(pause)
		}
	}
	close(jobs)
	tasks.Wait()
}

func (s shape) pipeline() {
	first := make(chan uint64, room)
	from := first
	var tasks sync.WaitGroup
	for range stages - 1 {
		stage, to := from, make(chan uint64, room)
		from = to
		tasks.Go(func() {
			for value := range stage {
				value = spin(value, s.steps)
				hit(0)
				to <- value
			}
			close(to)
		})
	}
	tasks.Go(func() {
		for value := range from {
			hit(spin(value, s.steps))
		}
	})
	for number := uint64(1); number <= s.count; number++ {
		first <- number
	}
	close(first)
	tasks.Wait()
}

func (s shape) pairs() {
	var tasks sync.WaitGroup
	for pair := range uint64(pairCount) {
		channel := make(chan uint64)
		tasks.Go(func() {
			for number := uint64(1); number <= s.count; number++ {
				channel <- pair*s.count + number
			}
			close(channel)
		})
		tasks.Go(func() {
			for number := range channel {
				hit(number)
			}
		})
	}
	tasks.Wait()
}

func (s shape) parallelMap() {
	results := make([]uint64, s.count)
	var tasks sync.WaitGroup
	for index := range results {
		tasks.Go(func() {
			results[index] = spin(uint64(index)+1, s.steps)
			hit(results[index])
		})
	}
	tasks.Wait()
}

func (s shape) nested() {
	var outermost sync.WaitGroup
	for outer := range uint64(outerTasks) {
		outermost.Go(func() {
			for scope := range s.count {
				var tasks sync.WaitGroup
				for inner := range uint64(innerTasks) {
					tasks.Go(func() {
						time.Sleep(nap)
						hit(spin((outer*s.count+scope)*innerTasks+inner+1, s.steps))
					})
				}
				tasks.Wait()
			}
		})
	}
	outermost.Wait()
}

func (s shape) short() {
	var tasks sync.WaitGroup
	for number := uint64(1); number <= s.count; number++ {
		tasks.Go(func() { hit(number) })
	}
	tasks.Wait()
}

func actorOf(number uint64) uint64 {
	if (number-1)/senders%4 == 0 {
		return 0
	}
	return 1 + number*7%(actorCount-1)
}

func (s shape) actors() {
	var mailboxes [actorCount]chan uint64
	var actors, sending sync.WaitGroup
	for actor := range mailboxes {
		steps := s.steps
		if actor == 0 {
			steps *= 10
		}
		box := make(chan uint64, mailbox)
		mailboxes[actor] = box
		actors.Go(func() {
			for number := range box {
				hit(spin(number, steps))
			}
		})
	}
	for sender := range uint64(senders) {
		sending.Go(func() {
			for number := sender + 1; number <= s.count; number += senders {
				mailboxes[actorOf(number)] <- number
			}
		})
	}
	sending.Wait()
	for _, box := range mailboxes {
		close(box)
	}
	actors.Wait()
}

// The foreign code is a system call that does not return for a long time.
func blocked(s shape) {
	before := now()
	var left atomic.Int64
	left.Store(int64(s.count))
	var stranded int64
	var doneAfter time.Duration
	var tasks sync.WaitGroup
	spawnAll := func() {
		for number := uint64(1); number <= s.count; number++ {
			tasks.Go(func() {
				time.Sleep(besideNap)
				hit(spin(number, s.steps))
				if left.Add(-1) == 0 {
					doneAfter = time.Since(before.at)
				}
			})
		}
	}
	tasks.Go(func() {
		if s.word == "blocker" {
			spawnAll()
		}
		long := syscall.NsecToTimespec(foreign.Nanoseconds())
		for syscall.Nanosleep(&long, &long) == syscall.EINTR {
		}
		stranded = left.Load()
	})
	if s.word == "other" {
		runtime.Gosched()
		spawnAll()
	}
	tasks.Wait()
	// The harness takes the first line of a metric. The time after the last task is the end of the
	// foreign code.
	print("time", float64(doneAfter.Nanoseconds())/float64(s.count))
	print("stranded", float64(stranded))
	before.report([]shape{s})
}

func accept(s shape) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for range connections {
			connection, err := listener.Accept()
			must(err)
			tasks.Go(func() { serveConnection(connection, s.steps) })
		}
	})
	clients := exec.Command(os.Getenv("ECRU_BENCH_LOAD"), "--load", "placement", listener.Addr().String(), strconv.FormatUint(s.count, 10))
	clients.Stderr = os.Stderr
	output, err := clients.StdoutPipe()
	must(err)
	input, err := clients.StdinPipe()
	must(err)
	must(clients.Start())
	said := bufio.NewScanner(output)
	said.Scan()
	before := now()
	_, err = io.WriteString(input, "go\n")
	must(err)
	said.Scan()
	before.report([]shape{s})
	if said.Text() != fmt.Sprint("end ", s.checksum()) {
		panic("the clients were answered " + said.Text())
	}
	must(clients.Wait())
	tasks.Wait()
}

func serveConnection(connection net.Conn, steps uint64) {
	defer connection.Close()
	var bytes [request]byte
	for {
		if _, err := io.ReadFull(connection, bytes[:]); err != nil {
			return
		}
		value := spin(binary.LittleEndian.Uint64(bytes[:]), steps)
		hit(value)
		var answer [8]byte
		binary.LittleEndian.PutUint64(answer[:], value)
		_, err := connection.Write(answer[:])
		must(err)
	}
}

// As in src/placement/words.rs.
const (
	chunkBytes  = 1_000_000
	longestWord = 10
)

func (s shape) words() {
	file, err := os.Open(wordsFile())
	must(err)
	defer file.Close()
	chunks := make(chan []byte, room)
	var tasks sync.WaitGroup
	for range poolTasks {
		tasks.Go(func() {
			for chunk := range chunks {
				hit(countWords(chunk))
			}
		})
	}
	for range s.count {
		chunk := make([]byte, chunkBytes)
		_, err := io.ReadFull(file, chunk)
		must(err)
		chunks <- chunk
	}
	close(chunks)
	tasks.Wait()
}

func countWords(text []byte) uint64 {
	const basis, prime = 0xcbf29ce484222325, 0x100000001b3
	sum, hash := uint64(0), uint64(basis)
	for _, letter := range text {
		if letter > ' ' {
			hash = (hash ^ uint64(letter)) * prime
		} else if hash != basis {
			sum += hash + 1
			hash = basis
		}
	}
	return sum
}

// Returns the path of the file, which is created if it is missing.
func wordsFile() string {
	path := filepath.Join(os.TempDir(), "ecru-bench-words")
	if file, err := os.Stat(path); err == nil && file.Size() == 200*chunkBytes {
		return path
	}
	part := fmt.Sprint(path, ".", os.Getpid())
	file, err := os.Create(part)
	must(err)
	state := uint64(1)
	chunk := make([]byte, 0, chunkBytes)
	for range 200 {
		chunk = chunk[:0]
		for len(chunk)+longestWord+2 < chunkBytes {
			state = spin(state, 1)
			for place := range 1 + state>>54%longestWord {
				chunk = append(chunk, 'a'+byte(state>>(5*place))%26)
			}
			chunk = append(chunk, ' ')
		}
		for len(chunk) < chunkBytes-1 {
			chunk = append(chunk, 'z')
		}
		chunk = append(chunk, '\n')
		_, err = file.Write(chunk)
		must(err)
	}
	must(file.Sync())
	must(file.Close())
	must(os.Rename(part, path))
	return path
}
