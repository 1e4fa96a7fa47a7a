package tables

// A tryFunc makes one attempt of call i and reports whether it succeeded.
type tryFunc func(i int) bool

// A sharePolicy makes k calls, all of which are needed, with b retries among them, and reports whether all succeeded and
// how many retries it made. It makes every call, also when one has failed, as calls in parallel do.
type sharePolicy func(k, b int, try tryFunc) (ok bool, retries int)

// retryNone makes one attempt of each call.
func retryNone(k, _ int, try tryFunc) (ok bool, retries int) {
	return each(k, func(int) int { return 0 }, try)
}

// splitEqually gives each call an equal share of the retries, the first ones one more where that does not come out even.
func splitEqually(k, b int, try tryFunc) (ok bool, retries int) {
	return each(k, func(i int) int {
		if i < b%k {
			return b/k + 1
		}
		return b / k
	}, try)
}

// copyToEach gives each call all the retries.
func copyToEach(k, b int, try tryFunc) (ok bool, retries int) {
	return each(k, func(int) int { return b }, try)
}

func each(k int, share func(i int) int, try tryFunc) (ok bool, retries int) {
	ok = true
	for i := range k {
		left := share(i)
		success := try(i)
		for ; !success && left > 0; left-- {
			retries++
			success = try(i)
		}
		ok = ok && success
	}
	return ok, retries
}

// onePool lets every call take retries out of one pool.
func onePool(k, b int, try tryFunc) (ok bool, retries int) {
	ok = true
	for i := range k {
		success := try(i)
		for ; !success && retries < b; success = try(i) {
			retries++
		}
		ok = ok && success
	}
	return ok, retries
}
