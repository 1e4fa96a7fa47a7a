package tables

// fetchers are the clients of the CRE example: each fetches every so many minutes, and repeats a fetch that failed every
// minute until it succeeds. Beside is whether the regular fetch goes on meanwhile, with a repetition of its own. Minutes are
// the smallest unit, and the clients' first fetches are spread evenly over them.
type fetchers struct {
	perMinute, every int
	beside           bool
}

// loads returns how many fetches come in each minute, when all of an outage's minutes fail.
func (f fetchers) loads(minutes, from, until int) []int {
	came := make([]int, minutes)
	// Clients by the minute of their next regular fetch, and those that repeat a failed one.
	regular := make([]int, f.every)
	for i := range regular {
		regular[i] = f.perMinute
	}
	repeat := 0
	for minute := range minutes {
		due := regular[minute%f.every]
		came[minute] = due + repeat
		down := minute >= from && minute < until
		switch {
		case down && f.beside:
			repeat += due
		case down:
			repeat += due
			regular[minute%f.every] = 0 // the repetition replaces it
		default:
			if !f.beside {
				regular[minute%f.every] += repeat // whoever succeeds now comes again in so many minutes
			}
			repeat = 0
		}
	}
	return came
}
