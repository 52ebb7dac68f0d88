// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

//go:build unix

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// switchSource is the file that is added to a package. Which mutant is on, and
// which were reached, stands in a file that all processes of a test share,
// whatever their environment, and however they end.
const switchSource = `//go:build unix

package %[1]s

import (
	"os"
	"syscall"
)

var mutateShared = func() []byte {
	f, err := os.OpenFile(%[2]q, os.O_RDWR, 0)
	if err != nil {
		return make([]byte, %[3]d)
	}
	defer f.Close()
	shared, err := syscall.Mmap(int(f.Fd()), 0, %[3]d, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return make([]byte, %[3]d)
	}
	return shared
}()

var mutateActive = int(mutateShared[0]) | int(mutateShared[1])<<8 | int(mutateShared[2])<<16

func mutateOn(number int) bool {
	if mutateShared[8+number] == 0 {
		mutateShared[8+number] = 1
	}
	return number == mutateActive
}

type mutateInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutateNumber interface{ mutateInteger | ~float32 | ~float64 }

type mutateOrdered interface{ mutateNumber | ~string }

func mutateIf[T any](number int, mutated, original T) T {
	if mutateOn(number) {
		return mutated
	}
	return original
}

func mutateLess[T mutateOrdered](n int, a, b T) bool         { return mutateIf(n, a <= b, a < b) }
func mutateLessEqual[T mutateOrdered](n int, a, b T) bool    { return mutateIf(n, a < b, a <= b) }
func mutateGreater[T mutateOrdered](n int, a, b T) bool      { return mutateIf(n, a >= b, a > b) }
func mutateGreaterEqual[T mutateOrdered](n int, a, b T) bool { return mutateIf(n, a > b, a >= b) }

func mutateAdd[T mutateNumber](n int, a, b T) T     { return mutateIf(n, a-b, a+b) }
func mutateSub[T mutateNumber](n int, a, b T) T     { return mutateIf(n, a+b, a-b) }
func mutateAnd[T mutateInteger](n int, a, b T) T    { return mutateIf(n, a|b, a&b) }
func mutateOr[T mutateInteger](n int, a, b T) T     { return mutateIf(n, a&b, a|b) }
func mutateXor[T mutateInteger](n int, a, b T) T    { return mutateIf(n, a&b, a^b) }
func mutateAndNot[T mutateInteger](n int, a, b T) T { return mutateIf(n, a&b, a&^b) }

func mutateMul[T mutateNumber](n int, a, b T) T {
	if mutateOn(n) {
		return a / b
	}
	return a * b
}

func mutateQuo[T mutateNumber](n int, a, b T) T {
	if mutateOn(n) {
		return a * b
	}
	return a / b
}

func mutateRem[T mutateInteger](n int, a, b T) T {
	if mutateOn(n) {
		return a * b
	}
	return a %% b
}

func mutateShl[T, U mutateInteger](n int, a T, b U) T { return mutateIf(n, a>>b, a<<b) }
func mutateShr[T, U mutateInteger](n int, a T, b U) T { return mutateIf(n, a<<b, a>>b) }

func mutateNegative[T mutateNumber](n int, a T) T  { return mutateIf(n, -a, a) }
func mutateIncrease[T mutateInteger](n int, a T) T { return mutateIf(n, a+1, a) }
func mutateDecrease[T mutateInteger](n int, a T) T { return mutateIf(n, a-1, a) }
func mutateEmpty[T ~string](n int, a T) T          { return mutateIf(n, "", a) }
func mutateNot[T ~bool](n int, a T) T              { return mutateIf(n, !a, a) }

func mutateZero[T any](n int, a T) T {
	var zero T
	return mutateIf(n, zero, a)
}

func mutateSecond[A, E any](n int) func(A, E) (A, E) {
	return func(a A, e E) (A, E) { return a, mutateZero(n, e) }
}

func mutateThird[A, B, E any](n int) func(A, B, E) (A, B, E) {
	return func(a A, b B, e E) (A, B, E) { return a, b, mutateZero(n, e) }
}
`

// A switchFile is what the processes of a test share with this one.
type switchFile struct {
	path string
	size int
}

func (s switchFile) source(pkg string) string {
	return fmt.Sprintf(switchSource, pkg, s.path, s.size)
}

// set turns one mutant on, or none (0), and forgets what was reached.
func (s switchFile) set(number int) error {
	data := make([]byte, s.size)
	binary.LittleEndian.PutUint32(data, uint32(number))
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE, 0o666) // not truncated: it may be mapped
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(0o666), f.Close()) // tests become other users
}

// reached are the numbers of the mutants that some process came to.
func (s switchFile) reached() (map[int]bool, error) {
	data, err := os.ReadFile(s.path)
	if err != nil {
		return nil, err
	}
	numbers := map[int]bool{}
	for i, hit := range data[8:] {
		if hit != 0 {
			numbers[i] = true
		}
	}
	return numbers, nil
}
