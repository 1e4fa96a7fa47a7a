package stormlab

import "sync"

// crew is the goroutines that requests and parallel calls run on. One that is done waits for more: a new one would have to
// grow its stack for every chain that it goes down.
type crew struct {
	clock *clock // its lock guards idle, so that what a task wrote is there for whoever wakes next
	idle  []chan task
	all   sync.WaitGroup
}

// task is what to do, and the reserved instant to begin at. Whatever a task does before its instant would happen beside what
// its maker does; so it does nothing.
type task struct {
	at int64
	do func()
}

func (w *crew) start(at int64, do func()) {
	w.clock.mu.Lock()
	var c chan task
	if n := len(w.idle); n > 0 {
		c, w.idle = w.idle[n-1], w.idle[:n-1]
	}
	w.clock.mu.Unlock()
	if c == nil {
		c = make(chan task, 1)
		w.all.Add(1)
		go w.work(c)
	}
	c <- task{at, do}
}

func (w *crew) work(c chan task) {
	defer w.all.Done()
	for t := range c {
		w.clock.wait(t.at)
		t.do()
		w.clock.mu.Lock()
		w.idle = append(w.idle, c)
		w.clock.mu.Unlock()
	}
}

// dismiss ends the goroutines. Nothing is under way any more.
func (w *crew) dismiss() {
	w.clock.mu.Lock()
	for _, c := range w.idle {
		close(c)
	}
	w.clock.mu.Unlock()
	w.all.Wait()
}
