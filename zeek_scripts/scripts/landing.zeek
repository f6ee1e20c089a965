##! Who the subscribers are, and where finished files go.

@load base/frameworks/logging

module GiScope;

export {
	## The subscribers' address pools. `giscope zeek-options` writes them from the networks file.
	option subscribers: set[subnet] = {};

	## How often the files of a live interface are rotated.
	const rotation_interval = 5min &redef;

	## Folder that finished files are moved to; on the file system that Zeek writes them to.
	## Empty: they stay where Zeek rotated them.
	const landing = "" &redef;

	## Moves a finished file to the landing folder of its day. One that cannot be moved stays where
	## it is, and is tried again with the next one.
	##
	## path: The file.
	##
	## begun: When it was opened.
	##
	## Returns: Whether it is there.
	global land_file: function(path: string, begun: time): bool;

	## The postprocessor of this package's logs.
	global land: function(info: Log::RotationInfo): bool;
}

# A log that a killed Zeek left is rotated by the next one.
redef LogAscii::enable_leftover_log_rotation = T;

global not_landed: table[string] of time &ordered;

function try_to_land(path: string, begun: time): bool
	{
	local parts = split_string(path, /\//);
	local name = parts[|parts| - 1];
	local folder = fmt("%s/%s", landing, strftime("%Y-%m-%d", begun));
	return mkdir(folder) && rename(path, fmt("%s/%s-%s", folder, peer_description, name));
	}

function land_file(path: string, begun: time): bool
	{
	if ( landing == "" )
		return T;

	not_landed[path] = begun;
	local landed: set[string];
	for ( earlier, opened in not_landed )
		if ( try_to_land(earlier, opened) )
			add landed[earlier];

	for ( done in landed )
		delete not_landed[done];

	return path in landed;
	}

function land(info: Log::RotationInfo): bool
	{
	return land_file(info$fname, info$open);
	}
