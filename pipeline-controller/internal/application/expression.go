/*
Copyright 2026 The Sluice Authors

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

	http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/
package application

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/parser"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

const (
	// maxWhole is the maximum size in bytes of an object that an expression is evaluated for. The API server accepts
	// few larger ones.
	maxWhole = 1 << 20
	// longestString is the maximum length in bytes of strings in an expression's object. Longer strings are replaced by
	// null. No revision is that long.
	longestString = 4 << 10
	// costLimit limits the cost of an evaluation in CEL's units, and longestEvaluation its duration. CEL checks the
	// cost after each call, and the duration after each step of a macro.
	costLimit         = 5_000
	longestEvaluation = time.Second
)

// refused are the functions that no limit stops in time: neither the size of their result nor their duration is limited
// by their arguments.
var refused = []string{"matches", "replace", "join", "format", "strings.quote"}

// Expression is a CEL expression for the revision of an object.
type Expression struct{ program cel.Program }

var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("object", cel.DynType),
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(5)),
	)
})

// CompileRevision compiles a spec.revision.expr. Errors explain what is wrong with it.
func CompileRevision(expr string) (*Expression, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	compiled, issues := env.Compile(expr)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if of := compiled.OutputType(); !of.IsExactType(cel.StringType) && !of.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it evaluates to type %s, but must be a string", of)
	}
	if name := refusedIn(compiled.NativeRep()); name != "" {
		return nil, fmt.Errorf("%s is not available: use split or substring", name)
	}
	program, err := env.Program(compiled, cel.CostLimit(costLimit), cel.InterruptCheckFrequency(1))
	if err != nil {
		return nil, err
	}
	return &Expression{program}, nil
}

// refusedIn returns the first unsupported function of an expression. Numbers can be added. Strings and lists cannot,
// because repeated addition doubles their size at each step.
func refusedIn(compiled *ast.AST) (name string) {
	ast.MatchDescendants(ast.NavigateAST(compiled), func(expr ast.NavigableExpr) bool {
		switch {
		case name != "" || expr.Kind() != ast.CallKind:
		case slices.Contains(refused, expr.AsCall().FunctionName()):
			name = "function " + expr.AsCall().FunctionName()
		case expr.AsCall().FunctionName() == operators.Add && !ofMacro(expr.AsCall()) &&
			!slices.Equal(compiled.GetOverloadIDs(expr.ID()), []string{overloads.AddInt64}):
			name = "adding anything but integers"
		}
		return false
	})
	return name
}

// ofMacro reports whether the addition is part of a macro such as filter, which builds its list that way. Expressions
// cannot refer to that list by name.
func ofMacro(sum ast.CallExpr) bool {
	to := sum.Args()[0]
	return to.Kind() == ast.IdentKind && to.AsIdent() == parser.HiddenAccumulatorName
}

// revision evaluates the expression for an object.
func (e *Expression) revision(object map[string]any) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), longestEvaluation)
	defer cancel()
	value, _, err := e.program.ContextEval(ctx, map[string]any{"object": object})
	if err != nil {
		return "", err
	}
	revision, ok := value.(types.String)
	if !ok {
		return "", fmt.Errorf("it evaluated to type %s, but must be a string", value.Type().TypeName())
	}
	return string(revision), nil
}

// whole ensures that only one object is decoded for an expression at a time, since that needs many times its size in
// memory.
var whole sync.Mutex

// evaluate decodes a whole object and evaluates the expression. Only the result is kept.
func (e *Expression) evaluate(raw []byte) (string, error) {
	if len(raw) > maxWhole {
		return "", fmt.Errorf("the object is larger than %d KiB", maxWhole>>10)
	}
	whole.Lock()
	defer whole.Unlock()
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		return "", ErrMalformed
	}
	dropLong(object)
	return e.revision(object)
}

// dropLong replaces strings that are too long with null, and returns the value.
func dropLong(value any) any {
	switch value := value.(type) {
	case string:
		if len(value) > longestString {
			return nil
		}
	case map[string]any:
		for key, inner := range value {
			value[key] = dropLong(inner)
		}
	case []any:
		for i, inner := range value {
			value[i] = dropLong(inner)
		}
	}
	return value
}
