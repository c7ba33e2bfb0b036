#!/usr/bin/env bash
# Copyright 2026 The Sluice Authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.

# Builds the programs of the local cluster into bin/, from the Go modules beside this script:
#
#   hack/build.sh NAME...     NAME: controlplane, node, flux, flux-crds, gitea, flux-cli, controlplane-1.34
#
# controlplane-1.34 is an older control plane with its kubelet, in its own directory for KUBEBUILDER_ASSETS:
# bin/controlplane-1.34. PLATFORM=linux/arm64 hack/build.sh flux-cli builds bin/flux-cli/linux_arm64/flux, for another
# platform than this machine's.
#
# What is there already, from the same go.mod, go.sum and script, is not built again.
# Programs in the directory KUBEBUILDER_ASSETS, when it is set, are used instead of building them.

set -euo pipefail

hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=$(dirname "$hack")/bin
export GOWORK=off

fail() {
	echo "hack/build.sh: $*" >&2
	exit 1
}

# module_of NAME is the directory, beside this script, of the module that NAME is built from.
module_of() {
	case $1 in
	node) echo controlplane ;; # Kubernetes too, so that a node is never of another version than its control plane.
	flux-cli-*) echo flux-cli ;; # the same, for a platform
	flux-crds) echo flux ;;
	*) echo "$1" ;;
	esac
}

# fingerprint NAME is a hash of everything that decides what NAME builds to. It is a hash of contents,
# not of times, so that a fresh checkout or a restored cache of bin/ counts as built.
fingerprint() {
	local module
	module=$hack/$(module_of "$1")
	cat "$module/go.mod" "$module/go.sum" "$hack/build.sh" | git hash-object --stdin
}

# is_current NAME FILE... reports whether all files of NAME in bin/ come from its present fingerprint.
is_current() {
	local name=$1 file
	shift
	# Kept for record, as somebody may edit these files while the build runs.
	fingerprint "$name" >"$work/$name.fingerprint"
	cmp -s "$work/$name.fingerprint" "$bin/.built-$name" || return 1
	for file in "$@"; do
		[ -e "$bin/$file" ] || return 1
	done
}

# record says that NAME is built.
record() {
	mv "$work/$1.fingerprint" "$bin/.built-$1"
}

module_dir() {
	go list -mod=readonly -m -f '{{.Dir}}' "$1"
}

module_version() {
	go list -mod=readonly -m -f '{{.Version}}' "$1"
}

# say shows progress: on a terminal in place of the line before, elsewhere on a line
# of its own, but not more than one in ten seconds.
last_said=-10
say() {
	if [ -t 2 ]; then
		printf '\r\033[K%s' "$*" >&2
	elif [ $((SECONDS - last_said)) -ge 10 ]; then
		last_said=$SECONDS
		echo "$*" >&2
	fi
}

say_for_good() {
	if [ -t 2 ]; then
		printf '\r\033[K' >&2
	fi
	echo "$*" >&2
}

# compile NAME DIR PACKAGE... -- FLAG... builds the packages, in the module in the present directory, into
# DIR, and shows how far it is.
compile() {
	local name=$1 dir=$2 packages=() stale total compiled started=$SECONDS
	shift 2
	while [ "$1" != -- ]; do
		packages+=("$1")
		shift
	done
	shift

	say "$name: fetching modules and counting packages"
	# Those that -v will name: the ones that Go's own cache doesn't hold yet.
	stale=$(go list -mod=readonly -trimpath "$@" -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' "${packages[@]}")
	total=$(grep -c . <<<"$stale" || true)

	# As a job (-m) it has a process group of its own, which clean_up ends as a whole; without, it would ignore SIGINT.
	set -m
	# Compilers that collect less garbage take a tenth less time.
	GOGC=400 go build -mod=readonly -trimpath -buildvcs=false -v "$@" -o "$dir/" "${packages[@]}" >"$work/log" 2>&1 &
	builder=$!
	set +m
	while kill -0 "$builder" 2>/dev/null; do
		# -v prints an import path for each package; compilers' own words have spaces.
		compiled=$(grep -c '^[^ ]*$' "$work/log" || true)
		if [ "$compiled" -lt "$total" ]; then
			say "$name: $compiled of $total packages compiled, $((SECONDS - started)) s"
		else
			say "$name: $total packages compiled, linking, $((SECONDS - started)) s"
		fi
		sleep 1
	done
	if ! wait "$builder"; then
		say_for_good "$name: the build failed"
		grep -v '^[^ ]*$' "$work/log" >&2 || tail -n 20 "$work/log" >&2
		exit 1
	fi
	builder=
	say_for_good "$name: built in $((SECONDS - started)) s"
}

require_go() {
	local problem module
	module=$(module_of "$1")
	command -v go >/dev/null || fail "needs Go, see $hack/$module/go.mod for its version; there is no 'go' on the PATH"
	problem=$(cd "$hack/$module" && go list -mod=readonly -m 2>&1 >/dev/null) ||
		fail "Go can't work with hack/$module: $problem"
}

# install_packages NAME PACKAGE... installs packages with apt-get, if run as root.
install_packages() {
	local name=$1
	shift
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say_for_good "$name: installing $*"
		(apt-get update && apt-get install --yes --no-install-recommends "$@") >"$work/log" 2>&1 || tail -n 5 "$work/log" >&2
	fi
}

# compile_kubernetes NAME DIR PACKAGE... builds programs of Kubernetes, and etcd, into DIR.
compile_kubernetes() {
	local version major_minor
	version=$(module_version k8s.io/kubernetes)
	major_minor=${version#v}
	major_minor=${major_minor%.*}
	CGO_ENABLED=0 compile "$@" -- -ldflags "-s -w \
		-X k8s.io/component-base/version.gitVersion=$version \
		-X k8s.io/component-base/version.gitMajor=${major_minor%.*} \
		-X k8s.io/component-base/version.gitMinor=${major_minor#*.} \
		-X k8s.io/client-go/pkg/version.gitVersion=$version"
}

build_controlplane() {
	local wanted=() packages=() program dir=$work/controlplane
	for program in etcd kube-apiserver kube-controller-manager kubectl; do
		[ -x "${KUBEBUILDER_ASSETS:-}/$program" ] || wanted+=("$program")
	done
	if [ ${#wanted[@]} -eq 0 ] || is_current controlplane "${wanted[@]}"; then
		return
	fi

	require_go controlplane
	cd "$hack/controlplane"
	for program in "${wanted[@]}"; do
		case $program in
		etcd) packages+=(go.etcd.io/etcd/server/v3) ;;
		*) packages+=("k8s.io/kubernetes/cmd/$program") ;;
		esac
	done
	mkdir "$dir"
	compile_kubernetes controlplane "$dir" "${packages[@]}"
	if [ -e "$dir/server" ]; then
		mv "$dir/server" "$dir/etcd" # its package is called server
	fi
	mv "$dir"/* "$bin/"
	record controlplane
}

build_controlplane_1_34() {
	local programs=(kube-apiserver kube-controller-manager kube-scheduler kubectl kubelet) files=() program dir=$work/controlplane-1.34
	for program in etcd "${programs[@]}"; do
		files+=("controlplane-1.34/$program")
	done
	if is_current controlplane-1.34 "${files[@]}"; then
		return
	fi

	require_go controlplane-1.34
	cd "$hack/controlplane-1.34"
	mkdir "$dir"
	compile_kubernetes controlplane-1.34 "$dir" go.etcd.io/etcd/server/v3 "${programs[@]/#/k8s.io/kubernetes/cmd/}"
	mv "$dir/server" "$dir/etcd" # its package is called server
	mkdir -p "$bin/controlplane-1.34"
	mv "$dir"/* "$bin/controlplane-1.34/"
	record controlplane-1.34
}

# A node is more than the programs built here: its containers are run by the system's containerd.
build_node() {
	local missing dir=$work/node
	missing=$(missing_for_node)
	if [ -n "$missing" ]; then
		# shellcheck disable=SC2086 # names of packages, without blanks
		install_packages node $missing
		missing=$(missing_for_node)
	fi
	[ -z "$missing" ] || fail "a node needs what is in Debian's packages ${missing//$'\n'/, }: install them"
	if is_current node kubelet kube-scheduler; then
		return
	fi

	require_go node
	cd "$hack/$(module_of node)"
	mkdir "$dir"
	compile_kubernetes node "$dir" k8s.io/kubernetes/cmd/kubelet k8s.io/kubernetes/cmd/kube-scheduler
	mv "$dir"/* "$bin/"
	record node
}

# missing_for_node prints the Debian packages that hold what a node needs and this system lacks.
missing_for_node() {
	local directory
	command -v containerd >/dev/null && command -v ctr >/dev/null || echo containerd
	command -v runc >/dev/null || echo runc
	command -v ip >/dev/null || echo iproute2
	# Where packages put the plugins of CNI, and where tests/localnode looks for them.
	for directory in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
		if [ -x "$directory/bridge" ]; then
			return
		fi
	done
	echo containernetworking-plugins
}

flux_controllers=(source-controller kustomize-controller helm-controller notification-controller)

build_flux() {
	local dir=$work/flux
	build_flux_crds
	if is_current flux "${flux_controllers[@]}"; then
		return
	fi

	require_go flux
	cd "$hack/flux"
	mkdir -p "$dir"
	CGO_ENABLED=0 compile flux "$dir" "${flux_controllers[@]/#/github.com/fluxcd/}" -- -ldflags "-s -w"
	mv "$dir"/* "$bin/"
	record flux
}

build_flux_crds() {
	local controller file files=() dir=$work/flux-crds
	for controller in "${flux_controllers[@]}"; do
		files+=("crds/flux/$controller.yaml")
	done
	if is_current flux-crds "${files[@]}"; then
		return
	fi

	require_go flux-crds
	cd "$hack/flux"
	say "flux-crds: fetching modules"
	go mod download "${flux_controllers[@]/#/github.com/fluxcd/}"
	mkdir -p "$dir" "$bin/crds/flux"
	for controller in "${flux_controllers[@]}"; do
		for file in "$(module_dir "github.com/fluxcd/$controller")"/config/crd/bases/*.yaml; do
			echo ---
			cat "$file"
		done >"$dir/$controller.yaml"
	done
	mv "$dir"/*.yaml "$bin/crds/flux/"
	record flux-crds
}

build_gitea() {
	local module version compiler dir=$work/gitea
	if is_current gitea gitea gitea-static; then
		return
	fi

	require_go gitea
	cd "$hack/gitea"
	compiler=$(go env CC)
	command -v "${compiler%% *}" >/dev/null || install_packages gitea gcc libc6-dev
	command -v "${compiler%% *}" >/dev/null ||
		fail "Gitea's SQLite is written in C and needs a C compiler; there is no '$compiler' on the PATH (install gcc, or set CC)"
	mkdir "$dir"
	version=$(module_version code.gitea.io/gitea)
	# Without a version its own SDK refuses to talk to it.
	CGO_ENABLED=1 compile gitea "$dir" code.gitea.io/gitea -- -tags sqlite,sqlite_unlock_notify \
		-ldflags "-s -w -X main.Version=${version#v}"

	# The files Gitea reads at run time: copied, so that cleaning the module cache breaks nothing.
	module=$(module_dir code.gitea.io/gitea)
	mkdir "$dir/gitea-static"
	cp -R "$module/options" "$module/templates" "$module/public" "$dir/gitea-static/"
	chmod -R u+w "$dir/gitea-static"
	rm -rf "$bin/gitea-static"
	mv "$dir/gitea-static" "$dir/gitea" "$bin/"
	record gitea
}

build_flux_cli() {
	local kubectl manifests module version name=flux-cli file=flux source=$work/flux-cli
	if [ -n "$PLATFORM" ]; then
		name=flux-cli-${PLATFORM/\//_}
		file=flux-cli/${PLATFORM/\//_}/flux
	fi
	if is_current "$name" "$file"; then
		return
	fi

	build_controlplane
	kubectl=$bin/kubectl
	if [ -x "${KUBEBUILDER_ASSETS:-}/kubectl" ]; then
		kubectl=$KUBEBUILDER_ASSETS/kubectl
	fi
	require_go flux-cli
	cd "$hack/flux-cli"
	say "flux-cli: fetching modules"
	go mod download github.com/fluxcd/flux2/v2
	module=$(module_dir github.com/fluxcd/flux2/v2)
	version=$(module_version github.com/fluxcd/flux2/v2)

	# The source embeds manifests that Flux's release generates and its module therefore lacks. With these
	# two it compiles and does everything but install itself.
	cp -R "$module" "$source"
	chmod -R u+w "$source"
	cd "$source"
	mkdir -p cmd/flux/manifests out
	for manifests in rbac policies; do
		"$kubectl" kustomize "manifests/$manifests" >"cmd/flux/manifests/$manifests.yaml"
	done
	GOOS=${PLATFORM%/*} GOARCH=${PLATFORM#*/} CGO_ENABLED=0 compile "$name" "$source/out" ./cmd/flux -- -ldflags "-s -w -X main.VERSION=${version#v}"
	mkdir -p "$(dirname "$bin/$file")"
	mv out/flux "$bin/$file"
	record "$name"
}

clean_up() {
	if [ -n "$builder" ]; then
		# To SIGINT, unlike SIGTERM, go replies by removing its temporary files.
		kill -INT -- "-$builder" 2>/dev/null && wait "$builder" || true
	fi
	rm -rf "$work"
}

[ $# -gt 0 ] || fail "usage: hack/build.sh NAME..., NAME being controlplane, node, flux, flux-crds, gitea, flux-cli or controlplane-1.34"
for name in "$@"; do
	case $name in
	controlplane | node | flux | flux-crds | gitea | flux-cli | controlplane-1.34) ;;
	*) fail "knows no '$name', only controlplane, node, flux, flux-crds, gitea, flux-cli and controlplane-1.34" ;;
	esac
done

PLATFORM=${PLATFORM:-}

mkdir -p "$bin"
# Beside the result, so that each program appears in its place complete, by a rename.
work=$(mktemp -d "$bin/.work-XXXXXX")
builder=
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for name in "$@"; do
	"build_${name//[-.]/_}"
done
