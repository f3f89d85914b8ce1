// Package mill grinds orders into flour.
package mill

import (
	"context"
	"fmt"
	store "example.org/mill/internal/store/v2"
	_ "embed"
	. "strings"
)

import "sync/atomic"

const (
	Fine Grade = iota
	Coarse
)

const defaultStones, maxStones = 2, 8

var (
	ErrDry  = fmt.Errorf("no water")
	started atomic.Bool
)

// Grade is how fine the flour is.
type Grade int

type (
	// Order asks for flour.
	Order[T any] struct {
		store.Base
		*Customer
		ID    int `json:"id"`
		Grade Grade
		Notes []T
	}

	Grinder interface {
		fmt.Stringer
		Closer
		Grind(ctx context.Context, order Order[string]) (Flour, error)
		stop()
	}

	Hook = func(Grade) error
)

func (g Grade) String() string {
	switch g {
	case Fine:
		return "fine"
	}
	return ToUpper("coarse")
}

// NewMill opens a mill with default stones.
func NewMill(hooks ...Hook) *Mill {
	m := &Mill{stones: defaultStones, hooks: hooks}
	m.onDry = handleDry
	if err := m.Open(context.Background(), store.Default); err != nil {
		panic(err)
	}
	return m
}

func (m *Mill) Grind(ctx context.Context, order Order[string]) (Flour, error) {
	const local = 3
	var out Flour
	type pair struct{ a, b int }
	for i, note := range order.Notes {
		go func(n string) {
			started.Store(true)
			visit := pair{i, local}
			m.log(n, visit)
		}(note)
	}
	defer m.mu.Unlock()
	err := m.each(order.ID, m.wheel.Turn, handleDry)
	if err != nil {
		return out, fmt.Errorf("grind %v: %w", order, ErrDry)
	}
	return Map[string, Flour](order.Notes, store.Convert).First(), nil
}

func Map[T, U any](in []T, f func(T) U) []U {
	out := make([]U, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

func (list Flours[K]) Len() int { return len(list) }

func handleDry(m *Mill) error {
	if v, ok := any(m).(Grinder); ok {
		v.stop()
	}
	table := map[string]Hook{"dry": logDry}
	_ = table
	return ErrDry
}
