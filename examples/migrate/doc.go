// Package migrate shows six ways to retry or break, and each beside what replaces it here. The pages in docs/migrate quote its
// functions, and its tests measure what the pages' tables say, before and after.
//
// Each file has the functions of one page: the first as many services have it today, the second with the SDK. Base transports
// and functions are parameters because the tests stand in their place; in production a nil base is http.DefaultTransport.
package migrate
