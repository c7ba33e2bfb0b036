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
	// maxWhole, in bytes, bounds an object that an expression looks at. The API server takes few that are larger.
	maxWhole = 1 << 20
	// longestString, in bytes, bounds the strings that an expression sees. A longer one is null: no revision is as long.
	longestString = 4 << 10
	// costLimit bounds what one evaluation does, in CEL's units, and longestEvaluation the time that it takes. CEL looks at the cost after
	// each call, and at the time after each step of a macro.
	costLimit         = 5_000
	longestEvaluation = time.Second
)

// refused are the functions that no limit stops in time: what they make, or how long they take, is not bounded by what they are given.
var refused = []string{"matches", "replace", "join", "format", "strings.quote"}

// Expression is a CEL expression of an object's revision.
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

// CompileRevision compiles a spec.revision.expr. Errors say what is wrong with it.
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

// refusedIn returns the first function of an expression that is refused. Numbers can be added; texts and lists can't, since that doubles them
// at each step.
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

// ofMacro reports whether a sum is what a macro such as filter makes its list with. Nobody else can name that list.
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

// whole has objects decoded one at a time for expressions: that takes many times their size.
var whole sync.Mutex

// evaluate decodes an object as a whole, and evaluates the expression for it. No more is kept than the result.
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

// dropLong makes null of the strings in a value that are too long for an expression, and returns the value.
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
