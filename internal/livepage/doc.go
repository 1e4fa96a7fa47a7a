// Package livepage shows one SDK's numbers as a page and as JSON, and turns the switch of its retries.
//
// The page is one answer: style, script, icon and plots are in it, and its policy forbids everything else. It is made
// anew for each request, and its script fetches it again every two seconds and takes over the sections that have changed:
// there is one way to show a number, with JavaScript and without. Names that came over the wire are text, never markup.
package livepage
