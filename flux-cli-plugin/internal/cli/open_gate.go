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

package cli

import "github.com/spf13/cobra"

var opening = direction{
	closed: false, title: "Open", doing: "opening", done: "opened", state: "open",
	effect: "Those that another gate holds stay held. To release only one revision, use 'flux pass gate'.",
}

func newOpenGateCommand(use, words string, cluster *clusterFlags) *cobra.Command {
	return newTurnCommand(opening, use, words, cluster)
}
