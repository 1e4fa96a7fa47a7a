// Package model checks the purse's protocol as a whole: purse.pml describes it in Promela, and spin visits every state that
// it can reach. README.md says which step stands for what in the code. Only tests use the package: its own, and one of
// internal/engine that repeats what the model does on real purses.
package model
