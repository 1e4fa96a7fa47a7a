package otelprop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

const oursA = "chainbudget=v1.1.3.1.9f86d081.a"

func TestMergeBaggage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lines  []string
		member string
		want   string
	}{
		{"nothing_there", nil, oursA, oursA},
		{"one_empty_line", []string{""}, oursA, oursA},
		{"one_line", []string{"user=1,tenant=x;ttl=5"}, oursA, oursA + ",user=1,tenant=x;ttl=5"},
		{"two_lines", []string{"user=1", "tenant=x"}, oursA, oursA + ",user=1,tenant=x"},
		{"a_stale_member_first", []string{"chainbudget=v1.3.3.1.deadbeef.b,user=1"}, oursA, oursA + ",user=1"},
		{"a_stale_member_last", []string{"user=1,chainbudget=v1.3.3.1.deadbeef.b"}, oursA, oursA + ",user=1"},
		{"a_stale_member_between", []string{"user=1, chainbudget = x;p=1 ,b=2"}, oursA, oursA + ",user=1,b=2"},
		{"only_stale_members", []string{"chainbudget=x,chainbudget", "chainbudget"}, oursA, oursA},
		{"invalid_foreign_members_stay", []string{"x=va%lue,b ad=2", "ünï=\xff;p q"}, oursA, oursA + ",x=va%lue,b ad=2,ünï=\xff;p q"},
		{"other_case_is_foreign", []string{"ChainBudget=v1"}, oursA, oursA + ",ChainBudget=v1"},
		{"empty_members_may_go", []string{",, a=1 ,\t,", "b=2"}, oursA, oursA + ",a=1,b=2"},
		{"no_member", []string{"a=1,chainbudget=x", "b=2"}, "", "a=1,b=2"},
		{"no_member_nothing_left", []string{"chainbudget=x"}, "", ""},
		{"a_foreign_member_is_not_written", []string{"a=1"}, "b=2", "a=1"},
		{"two_members_are_not_written", []string{"a=1"}, oursA + ",b=2", "a=1"},
		{"a_member_too_long_is_not_written", []string{"a=1"}, "chainbudget=" + strings.Repeat("x", MaxMember), "a=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.lines)
			line, dropped := MergeBaggage(tt.lines, tt.member)
			assert.Equal(t, tt.want, line)
			assert.Zero(t, dropped)
			assert.Equal(t, before, tt.lines)
		})
	}
}

func TestMergeBaggage_Limits(t *testing.T) {
	members := func(n int) string {
		m := make([]string, n)
		for i := range m {
			m[i] = fmt.Sprintf("k%d=%d", i, i)
		}
		return strings.Join(m, ",")
	}
	room := MaxBaggageBytes - len(oursA) - len(",")
	for _, tt := range []struct {
		name    string
		lines   []string
		want    string
		dropped int
	}{
		{"64_members", []string{members(63)}, oursA + "," + members(63), 0},
		{"65_members", []string{members(64)}, oursA + "," + members(63), 1},
		{"a_stale_one_makes_room", []string{members(63) + ",chainbudget=x"}, oursA + "," + members(63), 0},
		{"200_members", []string{members(100), members(100)}, oursA + "," + members(63), 137},
		{"8192_bytes", []string{strings.Repeat("f", room)}, oursA + "," + strings.Repeat("f", room), 0},
		{"8193_bytes", []string{strings.Repeat("f", room+1)}, oursA, 1},
		{"8192_bytes_in_two_lines", []string{"a=1", strings.Repeat("f", room-4)}, oursA + ",a=1," + strings.Repeat("f", room-4), 0},
		{"8193_bytes_in_two_lines", []string{"a=1", strings.Repeat("f", room-3)}, oursA + ",a=1", 1},
		{"what_follows_one_that_does_not_fit_goes_too", []string{"a=1," + strings.Repeat("f", room-3) + ",b=2"}, oursA + ",a=1", 2},
		{"a_rest_out_of_sight_counts_as_one", []string{strings.Repeat("f", MaxBaggageBytes) + ",b=2,c=3", "d=4"}, oursA, 2},
		{"a_member_cut_by_the_bound_is_not_halved", []string{"a=1", strings.Repeat("f", 9000)}, oursA + ",a=1", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line, dropped := MergeBaggage(tt.lines, oursA)
			assert.Equal(t, tt.want, line)
			assert.Equal(t, tt.dropped, dropped)
		})
	}
}

func TestStripBaggage(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"only_ours", []string{oursA}, nil},
		{"only_ours_in_three_lines", []string{oursA, oursA + "," + oursA, "chainbudget"}, nil},
		{"first", []string{oursA + ",user=1 , b=2"}, []string{"user=1 , b=2"}},
		{"last", []string{"user=1 , b=2," + oursA}, []string{"user=1 , b=2"}},
		{"between", []string{"user=1 ,\tchainbudget = v1;p=1 , b=2"}, []string{"user=1 , b=2"}},
		{"many_between", []string{oursA + ",a=1," + oursA + "," + oursA + ",b=2,c=3," + oursA + ",d=4"}, []string{"a=1,b=2,c=3,d=4"}},
		{"other_lines_stay_as_they_are", []string{" a=1,,", oursA, "b=2;p;q=%zz"}, []string{" a=1,,", "b=2;p;q=%zz"}},
		{"line_without_other_members_goes", []string{"a=1", " , " + oursA + ", ,"}, []string{"a=1"}},
		{"without_value", []string{"a=1,chainbudget"}, []string{"a=1"}},
		{"key_in_a_value_is_foreign", []string{oursA + ",a=chainbudget,b;chainbudget=1"}, []string{"a=chainbudget,b;chainbudget=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.lines)
			assert.True(t, HasMember(tt.lines))
			kept, found := StripBaggage(tt.lines)
			assert.True(t, found)
			assert.Equal(t, tt.want, kept)
			assert.Equal(t, before, tt.lines, "the caller's slice and array")
			assert.False(t, HasMember(kept))
		})
	}
	for _, lines := range [][]string{nil, {}, {""}, {"a=1", "b=2"}, {"ChainBudget=v1"}, {strings.Repeat("a", MaxBaggageBytes)}, {"a=chainbudget"}} {
		kept, found := StripBaggage(lines)
		assert.False(t, found)
		assert.False(t, HasMember(lines))
		assert.Equal(t, unsafe.SliceData(lines), unsafe.SliceData(kept), "lines itself")
		assert.Len(t, kept, len(lines))
	}
}

// TestStripBaggage_WhatIsNotLookedAtGoes holds I6 where the bound ends: behind it a member of ours may hide.
func TestStripBaggage_WhatIsNotLookedAtGoes(t *testing.T) {
	full := strings.Repeat("f", MaxBaggageBytes)
	for _, tt := range []struct {
		name  string
		lines []string
		want  []string
	}{
		{"behind_one_long_member", []string{full + "," + oursA}, []string{full}},
		{"in_a_later_line", []string{full, oursA}, []string{full}},
		{"in_a_line_behind_empty_ones", append(make([]string, MaxBaggageBytes+1), oursA), nil},
		{"cut_by_the_bound", []string{"a=1," + full[:MaxBaggageBytes-10] + "," + oursA}, []string{"a=1," + full[:MaxBaggageBytes-10]}},
		{"a_foreign_member_cut_by_the_bound", []string{"a=1,b=2", full}, []string{"a=1,b=2"}},
		{"one_member_longer_than_the_bound", []string{full + "f"}, nil},
		{"later_foreign_lines_go_too", []string{"a=1," + full, "b=2"}, []string{"a=1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.True(t, HasMember(tt.lines), "it cannot be ruled out")
			kept, found := StripBaggage(tt.lines)
			assert.True(t, found)
			assert.Equal(t, tt.want, kept)
			assert.False(t, HasMember(kept))
		})
	}
}

func TestStripBaggage_LongLineIsNotPinned(t *testing.T) {
	line := "a=1," + strings.Repeat("f", MaxBaggageBytes)
	kept, _ := StripBaggage([]string{line})
	assert.Equal(t, []string{"a=1"}, kept)
	assert.False(t, within(kept[0], line))
}

func TestBaggage_Allocations(t *testing.T) {
	foreign := []string{"user=1,tenant=acme;ttl=5,session=abc%20def"}
	two := []string{"user=1", ordinaryBaggage[0]}
	var (
		kept []string
		line string
		ok   bool
	)
	assert.Zero(t, testing.AllocsPerRun(100, func() { kept, ok = StripBaggage(foreign) }))
	assert.False(t, ok)
	assert.Equal(t, foreign, kept)
	assert.Zero(t, testing.AllocsPerRun(100, func() { ok = HasMember(two) }))
	assert.True(t, ok)
	assert.Zero(t, testing.AllocsPerRun(100, func() { line, _ = MergeBaggage(nil, oursA) }))
	assert.Equal(t, oursA, line)
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { line, _ = MergeBaggage(foreign, oursA) }))
	assert.Equal(t, oursA+","+foreign[0], line)
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { line, _ = MergeBaggage(two, oursA) }))
	assert.Equal(t, oursA+",user=1,user=1,tenant=acme;ttl=5,session=abc%20def", line)

	// A member of ours at the end of its line, where writers and most hops put it, costs the new slice only.
	ours := []string{ordinaryMember + ",user=1"}
	assert.Equal(t, 1.0, testing.AllocsPerRun(100, func() { kept, _ = StripBaggage(ours) }))
	assert.Equal(t, []string{"user=1"}, kept)
}
