##! Who the subscribers are, when files are finished, and where they go.

@load base/frameworks/logging

module GiScope;

export {
	## The subscribers' address pools. `giscope zeek-options` writes them from the networks file.
	const subscribers: set[subnet] = {} &redef;

	## How often the files of a live interface are rotated.
	const rotation_interval = 5min &redef;

	## Folder that finished files are moved to; on the file system that Zeek writes them to.
	## Empty: they stay where Zeek rotated them.
	const landing = "" &redef;

	## Raised by a live Zeek each rotation_interval, at the same times as its logs are rotated.
	global rotation: event();

	## Raised where the next interval begins.
	global await_rotation: event();

	## Moves a finished file to the landing folder of its day, by UTC. One that cannot be moved stays
	## where it is, and is tried again with the next one, and by the next Zeek.
	##
	## path: The file.
	##
	## begun: When it was opened.
	global land_file: function(path: string, begun: time);

	## The postprocessor of this package's logs.
	global land: function(info: Log::RotationInfo): bool;

	## A file's name that is not taken yet.
	global free_name: function(stem: string, suffix: string): string;

	## A time as 2004-03-02-12-00-00, by UTC: strftime() tells local time, of which an hour comes
	## twice a year.
	global utc: function(t: time): string;
}

# A log that a killed Zeek left is rotated by the next one.
redef LogAscii::enable_leftover_log_rotation = T;

event zeek_init()
	{
	# There is no time yet to be reckoned from: it jumps from 0 to that of the first packet.
	if ( reading_live_traffic() )
		schedule 1sec { await_rotation() };
	}

event await_rotation()
	{
	# `-O ZAM` cannot compile a call within schedule.
	local wait = calc_next_rotate(rotation_interval);
	schedule wait { rotation() };
	}

event rotation()
	{
	event await_rotation();
	}

global not_landed: table[string] of time &ordered;

function utc(t: time): string
	{
	local seconds = double_to_count(floor(time_to_double(t)));

	# Years of this calendar begin on 1 March, its day 0 is that of the year 0: leap days come last.
	local day = seconds / 86400 + 719468;
	local in_era = day % 146097;
	local year = ( in_era - in_era / 1460 + in_era / 36524 - in_era / 146096 ) / 365;
	local in_year = in_era - ( 365 * year + year / 4 - year / 100 );
	local month = ( 5 * in_year + 2 ) / 153;

	return fmt("%d-%02d-%02d-%02d-%02d-%02d", day / 146097 * 400 + year + ( month < 10 ? 0 : 1 ),
	    month < 10 ? month + 3 : month - 9, in_year - ( 153 * month + 2 ) / 5 + 1,
	    seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
	}

# Zeek looks for such files when it starts, and calls `land` for what they stand for.
function shadow(path: string): string
	{
	return sub(path, /[^\/]*$/, fmt(".shadow.%s", split_string(path, /\//)[-1]));
	}

function free_name(stem: string, suffix: string): string
	{
	local name = stem + suffix;
	local n = 1;
	while ( file_size(name) >= 0.0 )
		name = fmt("%s-%d%s", stem, ++n, suffix);

	return name;
	}

function try_to_land(path: string, begun: time): bool
	{
	local file_name = split_string(path, /\//)[-1];
	local kind = sub(file_name, /[-.][0-9].*/, "");
	local suffix = match_pattern(file_name, /(\.[a-zA-Z]+)+$/)$str;
	local folder = fmt("%s/%s", landing, utc(begun)[0:10]);
	local stem = fmt("%s/%s-%s.%s", folder, peer_description, kind, utc(begun));
	return mkdir(folder) && rename(path, free_name(stem, suffix));
	}

function land_file(path: string, begun: time)
	{
	if ( landing == "" )
		return;

	not_landed[path] = begun;
	local gone: set[string];
	for ( earlier, opened in not_landed )
		{
		if ( file_size(earlier) >= 0.0 && ! try_to_land(earlier, opened) )
			next;

		add gone[earlier];
		}

	for ( done in gone )
		{
		delete not_landed[done];
		if ( file_size(shadow(done)) >= 0.0 )
			unlink(shadow(done));
		}

	if ( path in not_landed )
		{
		local left = open(shadow(path));
		print left, match_pattern(path, /(\.[a-zA-Z]+)+$/)$str;
		print left, "GiScope::land";
		close(left);
		}
	}

function land(info: Log::RotationInfo): bool
	{
	land_file(info$fname, info$open);
	# F would end the thread that writes the log, and Zeek with it.
	return T;
	}
