// Package defect has one defect that go vet does not see and staticcheck does: a comparison that is never true.
package defect

// Negative compares an unsigned number with zero.
func Negative(n uint) bool {
	return n < 0
}
